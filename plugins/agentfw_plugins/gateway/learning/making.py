"""Trains versions of a gateway's policy, and compares them with the served one by the answers that were held out.

A training is that of `agentfw train --from RUN`. The copies of conversations that it needs are deleted with the room.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Host, Policy, Run
from agentfw.errors import UsageError
from agentfw.runs import make_folder, newest_version, parse_spec, policy_of_run, start_from_runs, write_whole

from .comparison import Comparison, compare
from .ratings import Rating, without_removed
from .version_file import REJECTED, State, Version, VersionFile, named

Choice = str | dict[str, Any]
"""A component in a spec: its name, or its name and its settings."""


@dataclass(slots=True)
class Look:
    """What is found out about a version: everybody's, or that of a single user."""

    ratings: Sequence[Rating]
    user: str = ""
    has: Version | None = None
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
