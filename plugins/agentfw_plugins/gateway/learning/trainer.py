"""Makes new versions from the feedback of a gateway, in a process of its own at the lowest priority.

It is the training of `agentfw train --from RUN` on the newest ratings that weren't taken out. It goes on from the
served version, because the newest answers are its own; a training of all weights begins with the policy as it came.
What is held out, it never sees. If a version is on trial as a canary, that is judged instead. Versions of single users
come afterwards (own_versions).

One trainer works on a run at a time. It ends when its stdin closes, so it never outlives its gateway.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import counted

from . import versions_at
from .comparison import LEAST, shuffled
from .making import Look, Making
from .own_versions import for_single_users
from .ratings import MOST, Rating, comparable, fresh, read_ratings
from .version_file import CANARY, REJECTED, SERVED, TRAINER, State, Version, VersionFile, named

BUSY = 75
"""Exit code: another trainer is at work."""


def main() -> None:
    run, spec = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None
    os.nice(19)
    threading.Thread(target=_end_with_the_gateway, daemon=True).start()
    file = versions_at(run, **json.loads(os.environ.get(TRAINER, "{}")))
    with file.alone() as is_alone:
        if not is_alone:
            sys.exit(BUSY)
        attempt(file, spec)


def _end_with_the_gateway() -> None:
    """End as a kill would, also while a model computes. Nothing is lost: what is complete is in the file."""
    # Not sys.stdin, which a thread that reads holds a lock of: Python would abort when the trainer comes to its end.
    while os.read(0, 1024):
        pass
    os._exit(1)


def attempt(file: VersionFile, spec: Path | None = None) -> None:
    """Judge the canary, or else train a version and compare it. Then do so for single users."""
    state = file.read()
    file.clear(state)
    ratings = read_ratings(file.episodes(), state.removals, state.metric)
    if state.canary:
        judge(file, ratings)
    elif state.rebuild or fresh(ratings, state.seen) >= state.every:
        _for_everybody(file, state, ratings, spec)
    state = file.read()
    if state.due and not state.canary:
        asyncio.run(for_single_users(file, state, read_ratings(file.episodes(), state.removals, state.metric), spec))


def _for_everybody(file: VersionFile, state: State, ratings: Sequence[Rating], spec: Path | None) -> None:
    seen = max((one.at for one in ratings), default=state.seen)
    own, version, said = state.own, None, state.said
    others = [one for one in comparable(ratings, state) if one.user not in own][-MOST:]
    try:
        if state.rebuild or fresh(others, state.seen):
            version = asyncio.run(_made(file, state, others, spec))
            said = f"{version.name} {version.outcome}: {version.why}"
    except AgentfwError as error:
        said = f"no new version: {error.message}"
    with file.change() as now:
        now.look_at_own()
        if now.removals != state.removals or now.served != state.served:
            now.rebuild = True  # what it was made from, or compared with, isn't so any more
            return
        now.seen, now.rebuild, now.said = seen, False, said
        if version is None:
            return
        now.versions.append(version)
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
    look = Look(ratings)
    likes = sum(one.liked for one in look.held_out)
    for count, kind in ((likes, "liked"), (len(look.held_out) - likes, "disliked")):
        if count < LEAST:
            raise UsageError(f"{counted(count, f'{kind} answer')} held out, and {LEAST} are needed to compare versions")
    making = Making(file, state, spec)
    with making.room() as room:
        await making.train(look, making.values(look.taught, room), room)
        await making.compare([look])
        is_better = look.comparison is not None and look.comparison.is_better()
        outcome = REJECTED if not is_better else CANARY if state.share else SERVED
        return making.version(state.next_number, look, outcome)


if __name__ == "__main__":
    main()
