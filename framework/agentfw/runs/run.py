"""A run and its folder: create, resume, fork, summarize.

A reported episode is on disk. A run that was killed at any moment can be resumed, and ends with the same episodes and
the same policy as an uninterrupted run.

    run = Run.create(spec, host, Path("runs"))
    summary = asyncio.run(run.execute())

A fork is a new training that begins from the last complete update of another. It copies the rollouts, evaluations and
versions up to there, and the state of learner and optimizer. Memories learn the rollouts again, as in any resumed
training, so they know nothing of what the other training played later.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..boundary.output import struck_logs
from ..errors import StorageError, UsageError, disk_fix
from ..host import Host
from ..printing.out import counted
from .assembly import Assembly, assemble
from .deciding import ask_in_terminal
from .execution import Execution, curriculum
from .observers import HookCalls, Observer, RunInfo, Tracking, combined_observer
from .records.call_record import running_calls
from .records.folder import RunFolder
from .records.journal import sealed, sync, write_whole
from .records.package import pack
from .records.play_records import State
from .records.summary import Summary, summarize, total_usage
from .spec.resolution import (
    as_given,
    changed_record,
    in_force,
    modules_needed,
    refuse_changed,
    resolve,
    resolve_again,
    segment_of,
)
from .spec.run_spec import RunSpec


def forked(folder: RunFolder, root: Path, about: Mapping[str, Any]) -> RunFolder:
    """A new folder with the training as it was after its last complete update, and `about` as its run.json."""
    folder.lock()
    try:
        state = State.read(folder.path)
        if not state.update:
            raise UsageError(
                f"{folder.id} has no complete update that a fork could begin from", fix="start a new training"
            )
        if state.update >= about["updates"]:
            raise UsageError(
                f"{folder.id} has made all of its {state.update} updates, so a fork would have nothing to do",
                fix=f"raise their number: --set updates={state.update + 10}",
            )
        known = {key: value for key, value in about.items() if key not in ("format", "created", "python")}
        origin = {"forked_from": {"run": folder.id, "update": state.update}}
        environment = str(about["spec"]["environment"]["name"])
        return RunFolder.create(root, environment, {**known, **origin}, lambda path: _copy(folder, state, path))
    finally:
        folder.unlock()


def _copy(folder: RunFolder, state: State, path: Path) -> None:
    evaluations = [records.path for number, records in folder.evaluations().items() if number <= state.update]
    rollouts = [folder.rollouts(number).path for number in range(1, state.update + 1)]

    def is_known(file: Path) -> bool:
        """Whether a file of the learner was there after the update, as far as names tell."""
        number, _, rest = file.name.partition(".")
        return not number.isdigit() or (not rest and int(number) <= state.update)

    learner = filter(is_known, (folder.path / "learner").iterdir())
    files = [folder.path / name for name in ("state.json", "updates.jsonl")]
    try:
        for source in [*files, *evaluations, *rollouts, *learner]:
            target = path / source.relative_to(folder.path)
            target.parent.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.exists():
                shutil.copyfile(source, target)
        sync(path)
    except OSError as error:
        raise StorageError(f"can't copy {folder.path}: {error.strerror or error}", fix=disk_fix(error)) from error


class Run:
    """One run and its folder."""

    def __init__(
        self,
        folder: RunFolder,
        spec: RunSpec,
        host: Host,
        assembly: Assembly | None = None,
        *,
        changed: bool = False,
        forked: bool = False,
    ) -> None:
        self.folder, self.spec, self.host = folder, spec, host
        self._assembly, self._changed, self._forked = assembly, changed, forked

    @property
    def id(self) -> str:
        return self.folder.id

    @property
    def info(self) -> RunInfo:
        """What observers are given about the run."""
        return RunInfo(self.folder, self.spec)

    @classmethod
    def create(cls, spec: RunSpec, host: Host, root: Path) -> Run:
        """Create a run. Everything that can be wrong with the spec is an error before the folder is made."""
        if spec.models:
            raise UsageError("a run has one policy, and models are for gateways", fix="leave models out")
        resolved, _ = resolve(spec, host)
        assembly = assemble(resolved, host)
        about = describe_run(resolved, assembly)
        if resolved.planned_updates:
            curriculum(assembly, spec.updates)  # raises if there are too few tasks
        # The run uses the components that were created here, so that a model isn't loaded twice.
        return cls(RunFolder.create(root, spec.environment.label, about), resolved, host, assembly)

    @classmethod
    def open(
        cls, folder: RunFolder, host: Host, changes: Mapping[str, Any] | None = None, *, with_changed: bool = False
    ) -> Run:
        """Open an existing run. A missing plugin is an error. A plugin that has changed since then is noted.

        If that is its world, a reward or its policy, it is an error, unless `with_changed` says to go on with it.

        `changes` are settings as nested tables: the secrets that run.json doesn't contain (`missing_secrets` lists
        them), and settings that can't change results. They are kept for the next time.
        """
        spec = resolve_again(folder.about, host, f"{folder.path}/run.json", changes or {})
        run = cls(folder, spec, host, changed=bool(changes))
        if not (with_changed or run.is_done):
            refuse_changed(folder.about, spec, host)
        return run

    @classmethod
    def fork(cls, folder: RunFolder, host: Host, root: Path, changes: Mapping[str, Any]) -> Run:
        """Begin a new training from the last complete update of another, with other settings. The other stays."""
        if not folder.planned_updates:
            raise UsageError(f"{folder.id} is no training, so it has no update to begin from", fix="start a new run")
        spec = resolve_again(folder.about, host, f"{folder.path}/run.json", changes, fork=True)
        assembly = assemble(spec, host)
        curriculum(assembly, folder.updates_at_first)
        copy = forked(folder, root, changed_record(folder.about, spec))
        return cls(copy, spec, host, assembly, forked=True)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, also of what was added to its plan."""
        return self.folder.state == "done" and self.spec.planned_updates <= self.folder.planned_updates

    async def execute(self, observer: Observer | None = None) -> Summary:
        """Do what is missing, and summarize. A run that is done is not started again."""
        self.folder.lock()
        try:
            if self.is_done and (done := self.folder.summary()):
                return Summary.from_record(done)
            if self._changed:
                # In this order: a run that is killed in between is unfinished, and neither done nor without its plan.
                (self.folder.path / "summary.json").unlink(missing_ok=True)
                self.folder.rewrite(changed_record(self.folder.about, self.spec))
            self.folder.note_segment(segment_of(self.spec, self.host))
            assembly, self._assembly = self._assembly or assemble(self.spec, self.host), None
            with struck_logs():
                return await self._execute(assembly, observer or Observer())
        except UsageError:
            # Of a fork that was refused, because its settings don't fit the state, nothing was played.
            if self._forked and not self.folder.rollouts(self.folder.about["forked_from"]["update"] + 1).path.exists():
                shutil.rmtree(self.folder.path)
            raise
        finally:
            self.folder.unlock()

    async def _execute(self, assembly: Assembly, observer: Observer) -> Summary:
        tracking = Tracking(self.info, assembly.trackers, self.host.notes)
        observer = combined_observer(HookCalls(self.info, assembly.decisions.hooks), tracking, observer)
        assembly.decisions.run = self.info
        ask_in_terminal(assembly.decisions.questions)
        began = time.monotonic()
        try:
            if died := running_calls(self.folder.path):
                more = f", and {counted(len(died) - 1, 'other call')}" if len(died) > 1 else ""
                self.host.notes.append(f"when the run ended before, this was running: {died[0]}{more}")
            await assembly.open(self.folder.path)
            execution = Execution(self.folder, assembly, observer)
            observer.started(self.info, execution.state.update)
            assembly.trace = tracking.trace if tracking.traces else None
            assembly.spending.tell = observer.spent
            assembly.spending.count(*total_usage(self.folder.played()))
            packed = self.folder.path, self.folder.about["distributions"], modules_needed(self.spec, self.host)
            pack(*packed)
            await execution.finish()
            pack(*packed)  # with what was imported since
            references = assembly.environment.references(assembly.measured_tasks())
            summary = summarize(self.folder, time.monotonic() - began, references)
            summary = replace(summary, untracked=tracking.missed)
            if self.folder.headline not in summary.figures:
                who = assembly.environment.guard.title
                self.host.notes.append(f'{who} leads with "{self.folder.headline}", which no episode has')
            write_whole(self.folder.path / "summary.json", sealed(summary.to_record()))
            observer.finished(summary)
            return summary
        finally:
            await assembly.close()
            tracking.close()


def describe_run(spec: RunSpec, assembly: Assembly) -> dict[str, Any]:
    """The content of run.json."""
    tasks, (_, samples, _) = assembly.measured_tasks(), spec.measured
    return {
        **segment_of(spec, assembly.host),
        "episodes": len(tasks) * samples,
        "updates": spec.planned_updates,
        "description": assembly.environment.describe(tasks),
        "headline": assembly.environment.headline,
        "lower_is_better": assembly.environment.lower_is_better,
        "columns": assembly.environment.columns,
        "meanings": assembly.environment.meanings,
        "time_unit": assembly.environment.time_unit,
        "inspector": assembly.environment.inspector,
        "gpus": assembly.engine.plan.words() if spec.learner is not None else "",
        "spec": as_given(spec),
        "settings": in_force(spec),
    }
