"""Makes one new version from the feedback of a gateway, in a process of its own at the lowest priority.

    python -m agentfw_plugins.gateway.learning.trainer RUN [SPEC]

It is the training of `agentfw train --from RUN` on the newest ratings that weren't taken out. It goes on from the
served version, because the newest answers are its own; a training of all weights begins with the policy as it came.
What is held out, it never sees. If a version is on trial as a canary, that is judged instead.

The copies of conversations that a training needs are deleted with it. One trainer works on a run at a time. It ends
when its stdin closes, so it never outlives its gateway.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from agentfw import Host, Policy, Run
from agentfw.errors import AgentfwError, UsageError
from agentfw.host import HostOptions, find_project
from agentfw.printing.out import counted
from agentfw.runs import (
    make_folder,
    newest_version,
    parse_spec,
    policy_of_run,
    start_from_runs,
    write_whole,
)

from .comparison import LEAST, Comparison, compare, shuffled
from .ratings import MOST, Rating, fresh, read_ratings, without_removed
from .version_file import CANARY, REJECTED, SERVED, TRAINER, State, Version, VersionFile, named

BUSY = 75
"""Exit code: another trainer is at work."""
Choice = str | dict[str, Any]
"""A component in a spec: its name, or its name and its settings."""


def main() -> None:
    run, spec = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    os.nice(19)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    file = _versions_of(run)
    with _alone(file.folder) as is_alone:
        if not is_alone:
            sys.exit(BUSY)
        attempt(file, spec)


def _versions_of(run: Path) -> VersionFile:
    told = json.loads(os.environ.get(TRAINER, "{}"))
    if not told:
        return VersionFile(run)
    from .shared_versions import SharedVersionFile

    return SharedVersionFile(run, **told)


def _end_with_the_gateway() -> None:
    """End as a kill would, also while a model computes. Nothing is lost: what is complete is in the file."""
    # Not sys.stdin, which a thread that reads holds a lock of: Python would abort when the trainer comes to its end.
    while os.read(0, 1024):
        pass
    os._exit(1)


def attempt(file: VersionFile, spec: Path | None = None) -> None:
    """Judge the canary, or else train a version and compare it."""
    state = file.read()
    _clear(file, state)
    ratings = read_ratings(file.episodes(), state.removals, state.metric)
    seen = max((one.at for one in ratings), default=state.seen)
    if state.canary:
        judge(file, ratings)
        return
    if fresh(ratings, state.seen) < state.every and not state.rebuild:
        return
    ratings = ratings[-MOST:]
    try:
        version = asyncio.run(_made(file, state, ratings, spec))
    except AgentfwError as error:
        with file.change() as now:
            now.seen, now.rebuild, now.said = seen, False, f"no new version: {error.message}"
        return
    with file.change() as now:
        if now.removals != state.removals or now.served != state.served:
            now.rebuild = True  # what it was made from, or compared with, isn't so any more
            return
        now.seen, now.rebuild = seen, False
        now.versions.append(version)
        now.said = f"{named(version.number)} {version.outcome}: {version.why}"
        if version.outcome == CANARY:
            now.canary = version.number
        elif version.outcome == SERVED:
            now.served = version.number


def judge(file: VersionFile, ratings: Sequence[Rating]) -> None:
    """End the trial of a canary when as many answers are rated as a new version takes, and some of each version.

    What nobody has rated, the test on held-out answers can't see. So a version that passed it is served beside the one
    that it would replace, to users at the same time. It replaces it only if its answers are liked at least as often.
    """
    with file.change() as state:
        during = [one for one in ratings if one.at > state.since]
        own = [one.liked for one in during if one.version == named(state.canary)]
        others = [one.liked for one in during if one.version == named(state.served)]
        if len(during) < state.every or min(len(own), len(others)) < LEAST:
            state.said = f"{named(state.canary)} is on trial: {len(own)} of its answers are rated, {len(others)} others"
            return
        values = np.asarray([*others, *own], float)
        difference, p_value = shuffled(values, np.arange(len(values)) < len(others))
        why = (
            f"liked {np.mean(own):.2f} of {len(own)} answers of the canary and {np.mean(others):.2f} of {len(others)} "
            f"others in the same time (worse: p = {p_value:.4f})"
        )
        canary = state.version(state.canary)
        state.judge(worse=difference > 0, why=why)
        state.said = f"{named(canary.number)} {canary.outcome}: {why}"


async def _made(file: VersionFile, state: State, ratings: Sequence[Rating], spec: Path | None) -> Version:
    held_out = [one for one in ratings if one.held_out]
    taught = [one for one in ratings if one.whole and not one.held_out]
    likes = sum(one.liked for one in held_out)
    for count, kind in ((likes, "liked"), (len(held_out) - likes, "disliked")):
        if count < LEAST:
            raise UsageError(f"{counted(count, f'{kind} answer')} held out, and {LEAST} are needed to compare versions")
    host = Host.load(HostOptions.from_environment(project=find_project()))
    chosen = policy_of_run(host, str(file.run), file.run.parent)
    number = max((one.number for one in state.versions), default=0) + 1
    room = file.folder / "training"
    try:
        served = named(state.served)
        adapters = adapters_of(file, state, {served, *(one.version for one in held_out)})
        before = adapters[served]
        recorded = str(copied(file, state, taught, room / "recorded"))
        values = start_from_runs([recorded], room, metric=state.metric)(host, None, spec)
        goes_on = before is not None and _can_go_on(host, chosen, values)
        start = with_adapter(chosen, before) if before is not None and goes_on else chosen
        adapter = await trained(host, values, start, taught, room)
        comparison = await compared(host, chosen, adapter, served, adapters, held_out)
        sessions = sorted({one.session for one in taught})
        test = {"liked": comparison.liked, "before": comparison.before, "p": comparison.p_value}
        test |= {"left": comparison.left, "counted": comparison.counted}
        version = Version(number, time.time(), REJECTED, state.served, "", sessions, len(taught), test, str(comparison))
        version.start = state.served if goes_on else 0
        if comparison.better:
            version.adapter = f"{number:05d}/{adapter.name}"
            version.outcome = CANARY if state.share else SERVED
            file.keep(version, adapter)
        return version
    finally:
        shutil.rmtree(room, ignore_errors=True)


def copied(file: VersionFile, state: State, ratings: Sequence[Rating], folder: Path) -> Path:
    """A run with these sessions alone, and without the feedback that was taken out, to train from."""
    make_folder(folder)
    shutil.copy(file.run / "run.json", folder)
    names = {one.session for one in ratings}
    episodes = [without_removed(one, state.removals) for one in file.episodes() if one.task.query in names]
    lines = [json.dumps(one.to_record()) for one in episodes]
    write_whole(folder / "turns.jsonl", "".join(f"{line}\n" for line in lines))
    return folder


def _can_go_on(host: Host, policy: Choice, values: dict[str, Any]) -> bool:
    """Whether a training can begin with an adapter of this policy."""
    learner, settings = _parts(values["learner"])
    models = [host.settings_model(kind, name) for kind, name in (("policy", _parts(policy)[0]), ("learner", learner))]
    return settings.get("weights") != "all" and all(model and "adapter" in model.model_fields for model in models)


def with_adapter(policy: Choice, adapter: Path) -> Choice:
    name, settings = _parts(policy)
    return {"name": name, "settings": {**settings, "adapter": str(adapter)}}


def _parts(choice: Choice) -> tuple[str, dict[str, Any]]:
    """The name and the settings of a component in a spec."""
    return (choice, {}) if isinstance(choice, str) else (choice["name"], choice.get("settings", {}))


async def trained(host: Host, values: dict[str, Any], policy: Choice, taught: Sequence[Rating], room: Path) -> Path:
    """`agentfw train --from`, for at least one look at each rating. Returns the adapter."""
    # A tenth of the liked answers each is for validation and test; what is left must be enough for one update.
    likes = sum(one.liked for one in taught)
    learns_from_bad = values["environment"].get("settings", {}).get("answers") == "rated"
    usable = likes * 6 // 10 + (len(taught) - likes if learns_from_bad else 0)
    tasks = max(1, min(int(values.get("tasks", 8)), usable))
    updates = max(int(values.get("updates", 1)), math.ceil(len(taught) / tasks))
    # Versions are compared afterwards, so the training's own evaluation is small. It has a few tokens, because each
    # update is proven on them: a single one that is certain says the same before and after.
    evaluation = {"every": updates, "tasks": 1, "sampling": {"temperature": 0.0, "max_tokens": 16}}
    values |= {"policy": policy, "tasks": tasks, "updates": updates, "evaluation": evaluation}
    run = Run.create(parse_spec(values), host, room / "runs")
    await run.execute()
    return newest_version(run.folder)


def adapters_of(file: VersionFile, state: State, names: Collection[str]) -> dict[str, Path | None]:
    """The adapters of these versions, and of the policy as it came, which has none."""
    found = {named(one.number): file.fetch(one) for one in state.versions if one.adapter and named(one.number) in names}
    return {named(0): None, **found}


async def compared(
    host: Host,
    policy: Choice,
    new: Path,
    before: str,
    adapters: Mapping[str, Path | None],
    held_out: Sequence[Rating],
) -> Comparison:
    """Compare a new version with the one before. `adapters` has the one before, and all that gave these answers.

    Answers that were given before there were versions are those of the policy as it came.
    """
    asked = {**adapters, "new": new}
    logprobs = {name: await _logprobs(host, policy, adapter, held_out) for name, adapter in asked.items()}
    given_by = [one.version if one.version in adapters else named(0) for one in held_out]
    return compare(logprobs, "new", before, given_by, [one.liked for one in held_out])


async def _logprobs(host: Host, policy: Choice, adapter: Path | None, ratings: Sequence[Rating]) -> list[float]:
    """The log probability of each answer."""
    name, settings = _parts(policy)
    served = host.create("policy", name, settings)
    assert isinstance(served, Policy)
    try:
        if adapter is not None:
            await served.publish(adapter, "compared")
        found = await served.score([(one.prompt_ids, one.token_ids) for one in ratings])
    finally:
        await served.close()
    if not all(found):
        raise UsageError(f"the policy {name} can't tell how likely an answer is, so versions can't be compared")
    return [sum(one) for one in found]


def _clear(file: VersionFile, state: State) -> None:
    """Remove what a killed trainer left behind."""
    shutil.rmtree(file.folder / "training", ignore_errors=True)
    known = {one.adapter.partition("/")[0] for one in state.versions}
    versions = file.folder / "versions"
    for folder in versions.iterdir() if versions.is_dir() else ():
        if folder.name not in known:
            shutil.rmtree(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Whether no other trainer works on the run. SQLite's lock ends with the process, however that ends."""
    path = folder / "trainer.db"
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            yield False
            return
        yield True


if __name__ == "__main__":
    main()
