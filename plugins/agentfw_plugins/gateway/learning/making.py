"""Trains versions of a gateway's policy, and asks each how likely it is to give the answers that were rated.

    making = Making(file, state, spec)
    with making.room() as room:
        adapter = await making.trained(ratings, start=3, room=room)
        logprobs = await making.logprobs({"v3": old, "new": adapter}, {"v3": answers, "new": answers})

A training is that of `agentfw train --from RUN`. The copies of conversations that it needs are deleted with its room.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
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


class Making:
    """The trainings and tests of one attempt."""

    def __init__(self, file: VersionFile, state: State, spec: Path | None) -> None:
        self.file, self.state, self.spec = file, state, spec
        self.host = Host.load()
        self.policy: Choice = policy_of_run(self.host, str(file.run), file.run.parent)

    @contextmanager
    def room(self) -> Iterator[Path]:
        """A folder for trainings, until the block ends."""
        room = self.file.folder / "training"
        try:
            yield room
        finally:
            shutil.rmtree(room, ignore_errors=True)

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
        """Whether a training is one of all weights."""
        return bool(_parts(values["learner"])[1].get("weights") == "all")

    def goes_on(self, values: Mapping[str, Any]) -> bool:
        """Whether a training can begin with an adapter of this policy."""
        kinds = ("policy", _parts(self.policy)[0]), ("learner", _parts(values["learner"])[0])
        models = [self.host.settings_model(kind, name) for kind, name in kinds]
        return not self.trains_all(values) and all(model and "adapter" in model.model_fields for model in models)

    async def trained(self, values: dict[str, Any], taught: Sequence[Rating], start: Path | None, room: Path) -> Path:
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
        policy = self.policy
        if start is not None:
            name, settings = _parts(policy)
            policy = {"name": name, "settings": {**settings, "adapter": str(start)}}
        values |= {"policy": policy, "tasks": tasks, "updates": updates, "evaluation": evaluation}
        run = Run.create(parse_spec(values), self.host, room / "runs")
        await run.execute()
        return newest_version(run.folder)

    def version(self, number: int, taught: Sequence[Rating], start: int, test: Comparison, user: str = "") -> Version:
        """What there is to say of a version that isn't served yet."""
        sessions, before = sorted({one.session for one in taught}), self.state.served
        made = Version(number, time.time(), REJECTED, before, sessions=sessions, ratings=len(taught))
        return replace(made, test=test.figures, why=str(test), start=start, user=user)

    def keep(self, version: Version, adapter: Path, outcome: str) -> None:
        """Put the adapter of a version that is to be served in its place."""
        version.adapter, version.outcome = f"{version.number:05d}/{adapter.name}", outcome
        self.file.keep(version, adapter)

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
                    raise UsageError(
                        f"the policy {name} can't tell how likely an answer is, so versions can't be compared"
                    )
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
    """The name and the settings of a component in a spec."""
    return (choice, {}) if isinstance(choice, str) else (choice["name"], choice.get("settings", {}))
