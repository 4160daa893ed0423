"""Makes new versions from the feedback of a gateway, in a process of its own at the lowest priority.

It is the training of `agentfw train --from RUN` on the newest ratings that weren't taken out. It goes on from the
served version, because the newest answers are its own; a training of all weights begins with the policy as it came.
What is held out, it never sees. If a version is on trial as a canary, that is judged instead.

Versions of single users come afterwards. For a user with enough ratings, a version is trained that goes on from the
served one with their own ratings alone. It is compared with the served one on their own held-out answers, by the same
importance-weighted test (comparison), and kept only if it is better by WORTH. It answers to them alone: no request can
ask for it by name.

How many ratings are enough follows from what the test can show. Among n held-out answers of which k were liked, no
p-value is below 1 / C(n, k). That has to be less than the level which is left for one of AT_ONCE users. Users who are
looked at together share the level by Holm's method: the chance that any of them gets a version by luck is at most 0.05
in each attempt. A user who got none is looked at again once half of their ratings are new, so that there are few
attempts that luck could win.

When others get a new version, those of single users are tested against it, on the same terms, and dropped if they are
no longer better. The ratings of users who have their own take no part in the versions of the others meanwhile.

One trainer works on a run at a time. It ends when its stdin closes, so it never outlives its gateway.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentfw import Host, Policy, Run
from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import counted
from agentfw.runs import make_folder, newest_version, parse_spec, policy_of_run, start_from_runs, write_whole

from . import versions_at
from .comparison import LEAST, LEVEL, Comparison, compare, shuffled
from .ratings import MOST, Rating, comparable, fresh, read_ratings, without_removed
from .version_file import CANARY, DROPPED, REJECTED, REPLACED, SERVED, TRAINER, State, Version, VersionFile, named

BUSY = 75
"""Exit code: another trainer is at work."""
AT_ONCE = 8
"""Maximum number of users that an attempt looks at: those with the most ratings. The next attempt takes the others."""
WORTH = 0.05
"""How much larger the share of liked answers must be. A smaller gain can be significant, but nobody would notice it."""
_NEW = 0.5  # share of a user's ratings that must be new before they are looked at again
Choice = str | dict[str, Any]
"""A component in a spec: its name, or its name and its settings."""


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
    try:
        if state.canary:
            judge(file, ratings)
        elif state.rebuild or fresh(ratings, state.seen) >= state.every:
            _for_everybody(file, state, ratings, spec)
        state = file.read()
        if state.due and not state.canary:
            file.clear(state)  # copies of everybody's conversations don't stay while single users' versions are trained
            ratings = read_ratings(file.episodes(), state.removals, state.metric)
            asyncio.run(for_single_users(file, state, ratings, spec))
    finally:
        shutil.rmtree(file.folder / "training", ignore_errors=True)


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
    await making.train(look, making.values(look.taught, making.room), making.room)
    await making.compare([look])
    is_better = look.comparison is not None and look.comparison.is_better()
    outcome = REJECTED if not is_better else CANARY if state.share else SERVED
    return making.version(state.next_number, look, outcome)


# -- single users ------------------------------------------------------------------------------------------------------


def can_show(held_out: Sequence[Rating]) -> bool:
    """Whether the test of one among several users could find that a version is better."""
    likes = sum(one.liked for one in held_out)
    return min(likes, len(held_out) - likes) >= LEAST and math.comb(len(held_out), likes) * LEVEL > AT_ONCE


def chosen(state: State, ratings: Sequence[Rating]) -> list[Look]:
    """Whom to look at: first whose version was compared with one that isn't served any more, then who is due."""
    by_user, trains = defaultdict[str, list[Rating]](list), list[Look]()
    for one in comparable(ratings, state):
        by_user[one.user].append(one)
    has = state.own
    tested = [one for one in has.values() if one.before != state.served]
    tests = [Look(by_user.pop(one.user, [])[-MOST:], one.user, one, trains=False) for one in tested]
    for user, theirs in by_user.items() if state.owns else ():
        look = Look(theirs[-MOST:], user, has.get(user))
        is_due = fresh(look.ratings, state.tried.get(user, 0.0)) >= _NEW * len(look.ratings)
        if user and is_due and can_show(look.held_out):
            trains.append(look)
    return [*tests, *sorted(trains, key=lambda one: -len(one.ratings))]


async def for_single_users(file: VersionFile, state: State, ratings: Sequence[Rating], spec: Path | None) -> None:
    """Look at as many users as an attempt takes, and serve those their own for whom it is better."""
    waiting = chosen(state, ratings)
    looks, made = waiting[:AT_ONCE], dict[str, Version]()
    making = Making(file, state, spec)
    try:
        troubles = await _train(making, [one for one in looks if one.trains])
        tested = [one for one in looks if one.adapter is not None or not one.trains]
        await making.compare([one for one in tested if can_show(one.held_out)])
    except AgentfwError as error:
        with file.change() as now:
            now.due, now.said = False, f"no version of a single user: {error.message}"
        return
    mark_better(looks)
    for one in looks:
        if one.is_better and one.trains:
            made[one.user] = making.version(state.next_number + len(made), one, SERVED)
    with file.change() as now:
        if now.removals != state.removals or now.served != state.served:
            now.look_at_own()  # what these were made from, or compared with, isn't so any more
            return
        dropped = _note(now, looks, made)
        now.due = len(waiting) > len(looks) or (now.owns and bool(dropped))
        said = [f"own versions: {', '.join(one.name for one in made.values()) or 'nobody'}"]
        said += [f"no longer better: {', '.join(dropped)}"] if dropped else []
        if looks:  # else what came of everybody's is still the last
            now.said = "; ".join([f"{counted(len(looks), 'user')} looked at", *said, *troubles])


async def _train(making: Making, looks: Sequence[Look]) -> list[str]:
    troubles = list[str]()
    for place, one in enumerate(looks):
        room = making.room / str(place)
        try:
            values = making.values(one.taught, room)
            if making.trains_all(values):
                return ["a version of a single user has to be an adapter, and this training is one of all weights"]
            await making.train(one, values, room)
        except AgentfwError as error:  # the others are not concerned
            troubles.append(f"{one.user}: {error.message}")
    return troubles


def mark_better(looks: Sequence[Look]) -> None:
    """Mark whose version is better by more than luck, among all that were looked at together (Holm, 1979)."""
    tested = [(one.comparison.p_value, place) for place, one in enumerate(looks) if one.comparison is not None]
    for rank, (p_value, place) in enumerate(sorted(tested)):
        level, comparison = LEVEL / (len(looks) - rank), looks[place].comparison
        if p_value >= level or comparison is None:
            return
        looks[place].is_better = comparison.is_better(level, by=WORTH)


def _note(state: State, looks: Sequence[Look], made: Mapping[str, Version]) -> list[str]:
    """Write down what was found. Returns the versions that are dropped."""
    dropped, known = list[str](), {one.number: one for one in state.versions}
    for look in looks:
        has = known.get(look.has.number) if look.has is not None else None
        if look.trains:
            state.tried[look.user] = max(one.at for one in look.ratings)
            if has is not None and look.user in made:
                has.outcome = REPLACED
        elif has is not None:
            if look.comparison is not None:
                has.test, has.why = look.comparison.figures, str(look.comparison)
            if look.is_better:
                has.before = state.served
            else:
                has.outcome = DROPPED
                dropped.append(has.name)
                state.tried.pop(look.user, None)
    state.versions += made.values()
    return dropped


# -- making and comparing ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Look:
    """What is found out about a version: everybody's, or that of a single user."""

    ratings: Sequence[Rating]
    user: str = ""
    has: Version | None = None  # of their own, which the user is served
    trains: bool = True
    """Whether one is trained. Else the one that the user has is tested."""
    adapter: Path | None = None
    start: int = 0
    """The version that its training went on from."""
    comparison: Comparison | None = None
    """With what everybody is served. None: it can't be better."""
    is_better: bool = False

    @property
    def held_out(self) -> list[Rating]:
        return [one for one in self.ratings if one.held_out]

    @property
    def taught(self) -> list[Rating]:
        return [one for one in self.ratings if one.whole and not one.held_out]

    @property
    def name(self) -> str:
        return self.has.name if self.has is not None and not self.trains else f"of {self.user}"


class Making:
    def __init__(self, file: VersionFile, state: State, spec: Path | None) -> None:
        self.file, self.state, self.spec, self.room = file, state, spec, file.folder / "training"
        self.host = Host.load()
        self.policy: Choice = policy_of_run(self.host, str(file.run), file.run.parent)

    def values(self, ratings: Sequence[Rating], room: Path) -> dict[str, Any]:
        """The spec of a training on copies of these sessions alone, without the feedback that was taken out."""
        folder, names = room / "recorded", {one.session for one in ratings}
        make_folder(folder)
        shutil.copy(self.file.run / "run.json", folder)
        episodes = [one for one in self.file.episodes() if one.task.query in names]
        lines = [json.dumps(without_removed(one, self.state.removals).to_record()) for one in episodes]
        write_whole(folder / "turns.jsonl", "".join(f"{line}\n" for line in lines))
        return start_from_runs([str(folder)], room, metric=self.state.metric)(self.host, None, self.spec)

    def trains_all(self, values: Mapping[str, Any]) -> bool:
        return bool(_parts(values["learner"])[1].get("weights") == "all")

    def goes_on(self, values: Mapping[str, Any]) -> bool:
        """Whether a training can begin with an adapter of this policy."""
        kinds = ("policy", _parts(self.policy)[0]), ("learner", _parts(values["learner"])[0])
        models = [self.host.settings_model(kind, name) for kind, name in kinds]
        return not self.trains_all(values) and all(model and "adapter" in model.model_fields for model in models)

    async def train(self, look: Look, values: dict[str, Any], room: Path) -> None:
        """`agentfw train --from`, for at least one look at each rating, from the served version on if that can be."""
        # A tenth of the liked answers each is for validation and test; what is left must be enough for one update.
        taught, served = look.taught, named(self.state.served)
        likes = sum(one.liked for one in taught)
        learns_from_bad = values["environment"].get("settings", {}).get("answers") == "rated"
        usable = likes * 6 // 10 + (len(taught) - likes if learns_from_bad else 0)
        tasks = max(1, min(int(values.get("tasks", 8)), usable))
        updates = max(int(values.get("updates", 1)), math.ceil(len(taught) / tasks))
        # Versions are compared afterwards, so the training's own evaluation is small. It has a few tokens, because each
        # update is proven on them: a single one that is certain says the same before and after.
        evaluation = {"every": updates, "tasks": 1, "sampling": {"temperature": 0.0, "max_tokens": 16}}
        policy = self.policy
        if (start := self.adapters({served})[served]) is not None and self.goes_on(values):
            name, settings = _parts(policy)
            policy = {"name": name, "settings": {**settings, "adapter": str(start)}}
            look.start = self.state.served
        values |= {"policy": policy, "tasks": tasks, "updates": updates, "evaluation": evaluation}
        run = Run.create(parse_spec(values), self.host, room / "runs")
        await run.execute()
        look.adapter = newest_version(run.folder)

    async def compare(self, looks: Sequence[Look]) -> None:
        """Compare what was trained, or what users have, with what everybody is served."""
        served, has = named(self.state.served), {one.user: one.has.name for one in looks if one.has is not None}
        adapters = self.adapters({served, *has.values(), *(each.version for one in looks for each in one.held_out)})
        adapters |= {one.name: one.adapter for one in looks if one.adapter is not None}
        asked = defaultdict[str, list[Rating]](list)
        for one in looks:
            for version in {served, one.name, has.get(one.user, served), *givers(one.held_out, adapters)}:
                asked[version] += one.held_out
        logprobs = await self.logprobs(adapters, asked) if looks else {}
        for one in looks:
            one.comparison = comparison_of(logprobs, one.name, served, one.held_out)
            if one.trains and one.user in has:
                against = comparison_of(logprobs, one.name, has[one.user], one.held_out)
                if against.liked < against.before:
                    one.comparison = None

    def version(self, number: int, look: Look, outcome: str) -> Version:
        """The version that was looked at. The adapter of one that is to be served is put in its place."""
        assert look.adapter is not None
        assert look.comparison is not None
        sessions, test = sorted({one.session for one in look.taught}), look.comparison
        made = Version(number, time.time(), outcome, self.state.served, sessions=sessions, ratings=len(look.taught))
        made.test, made.why, made.start, made.user = test.figures, str(test), look.start, look.user
        if outcome != REJECTED:
            made.adapter = f"{number:05d}/{look.adapter.name}"
            self.file.keep(made, look.adapter)
        return made

    def adapters(self, names: Collection[str]) -> dict[str, Path | None]:
        """The adapters of these versions, and of the policy as it came, which has none."""
        made = [one for one in self.state.versions if one.adapter and one.name in names]
        return {named(0): None, **{one.name: self.file.fetch(one) for one in made}}

    async def logprobs(
        self, adapters: Mapping[str, Path | None], ratings: Mapping[str, Sequence[Rating]]
    ) -> dict[str, dict[Rating, float]]:
        """How likely versions are to give rated answers. Each is asked for its own."""
        name, settings = _parts(self.policy)
        asked = self.host.create("policy", name, settings)
        assert isinstance(asked, Policy)
        found = dict[str, dict[Rating, float]]()
        try:
            for version in sorted(ratings, key=lambda one: adapters[one] is not None):  # first the one as it came
                if (adapter := adapters[version]) is not None:
                    await asked.publish(adapter, "compared")
                answers = [(one.prompt_ids, one.token_ids) for one in ratings[version]]
                told = await asked.score(answers)
                if not all(told):
                    words = f"the policy {name} can't tell how likely an answer is, so versions can't be compared"
                    raise UsageError(words)
                found[version] = {one: sum(each) for one, each in zip(ratings[version], told, strict=True)}
        finally:
            await asked.close()
        return found


def givers(ratings: Sequence[Rating], adapters: Collection[str]) -> list[str]:
    """The versions that gave answers. Before there were versions, it was the policy as it came."""
    return [one.version if one.version in adapters else named(0) for one in ratings]


def comparison_of(
    logprobs: Mapping[str, Mapping[Rating, float]], new: str, before: str, held_out: Sequence[Rating]
) -> Comparison:
    """Compare two versions by answers that neither was trained on."""
    given_by = givers(held_out, logprobs)
    asked = {version: [logprobs[version][one] for one in held_out] for version in {new, before, *given_by}}
    return compare(asked, new, before, given_by, [one.liked for one in held_out])


def _parts(choice: Choice) -> tuple[str, dict[str, Any]]:
    return (choice, {}) if isinstance(choice, str) else (choice["name"], choice.get("settings", {}))


if __name__ == "__main__":
    main()
