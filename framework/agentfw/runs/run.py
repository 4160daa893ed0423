"""A run and its folder: create, resume, summarize.

A reported episode is on disk. A run that was killed at any moment can be resumed, and ends with the same episodes and
the same policy as an uninterrupted run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..boundary.guard import GiveUp, watched
from ..boundary.output import struck_logs
from ..errors import UsageError
from ..host import Host
from ..printing.out import counted
from .assembly import Assembly, assemble
from .deciding import ask_in_terminal
from .execution import Execution, curriculum
from .observers import HookCalls, Observer, RunInfo, Tracking, combined_observer
from .records.call_record import running_calls
from .records.folder import RunFolder
from .records.journal import sealed, write_whole
from .records.package import pack
from .records.play_records import read_state, require_whole
from .records.summary import Summary, summarize, total_usage
from .spec.resolution import as_given, in_force, modules_needed, refuse_changed, resolve, resolve_again, segment_of
from .spec.run_spec import RunSpec


class Run:
    """One run and its folder."""

    def __init__(
        self, folder: RunFolder, spec: RunSpec, host: Host, assembly: Assembly | None = None, *, changed: bool = False
    ) -> None:
        self.folder, self.spec, self.host = folder, spec, host
        self._assembly, self._changed = assembly, changed

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
        resolved = resolve(spec, host)
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

        A changed world, reward or policy is an error, unless `with_changed`. `changes` are settings as nested tables:
        the secrets that run.json doesn't contain (`missing_secrets` lists them), and what can't change results. They
        are kept for the next time.
        """
        spec = resolve_again(folder.about, host, f"{folder.path}/run.json", changes or {})
        run = cls(folder, spec, host, changed=bool(changes))
        if not (with_changed or run.is_done):
            refuse_changed(folder.about, spec, host)
        return run

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do, also of what was added to its plan."""
        return self.folder.state == "done" and self.spec.planned_updates <= self.folder.planned_updates

    async def execute(self, observer: Observer | None = None, give_up: GiveUp | None = None) -> Summary:
        """Do what is missing, and summarize. A run that is done is not started again.

        `give_up` is called from another thread when a plugin has blocked the event loop until the deadline. Without it,
        the run only tells whose code that is.
        """
        self.folder.lock()
        try:
            if self.is_done and (done := self.folder.summary()):
                return Summary.from_record(done)
            if self._changed:  # what can't go on isn't planned anew
                require_whole(self.folder.path, read_state(self.folder.path))
            assembly, self._assembly = self._assembly or assemble(self.spec, self.host), None
            if self._changed:
                # In this order: a run that is killed in between is unfinished, and neither done nor without its plan.
                (self.folder.path / "summary.json").unlink(missing_ok=True)
                now = {"spec": as_given(self.spec), "settings": in_force(self.spec)}
                before = {"began_with": self.folder.about.get("began_with", self.folder.about["spec"])}
                self.folder.rewrite({**self.folder.about, "updates": self.spec.planned_updates, **now, **before})
            self.folder.note_segment(segment_of(self.spec, self.host))
            with watched(self.spec.deadline, give_up), struck_logs():
                return await self._execute(assembly, observer or Observer())
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
            imported = set(sys.modules)
            await execution.finish()
            if sys.modules.keys() - imported:
                pack(*packed)
            references = assembly.references()
            summary = summarize(self.folder, time.monotonic() - began, references)
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
    tasks, (_, samples, _), environment = assembly.measured_tasks(), spec.measured, assembly.environment
    with environment.guard.calling("its attributes"):
        headline, lower_is_better = environment.headline, bool(environment.lower_is_better)
        columns = {str(name): str(title) for name, title in dict(environment.columns).items()}
        meanings = {str(word): str(meaning) for word, meaning in dict(environment.meanings).items()}
        environment.guard.require(isinstance(headline, str), f"has a headline of type {type(headline).__name__}")
    return {
        **segment_of(spec, assembly.host),
        "episodes": len(tasks) * samples,
        "updates": spec.planned_updates,
        "description": environment.describe(tasks),
        "headline": headline,
        "lower_is_better": lower_is_better,
        "columns": columns,
        "meanings": meanings,
        "time_unit": str(environment.time_unit),
        "gpus": assembly.engine.plan.words() if spec.learner is not None else "",
        "spec": as_given(spec),
        "settings": in_force(spec),
    }
