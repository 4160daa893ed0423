"""Each promise of memories, rewards, optimizers, learners and trackers, and a component that breaks it."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import pstdev, stdev
from typing import Any

import pytest
from hearing_memories import Doubling, Keeping, Public, Stubborn

from agentfw.episode import Episode, Task
from agentfw.errors import SettingsError
from agentfw.learner import Batch, Learner, Update
from agentfw.memory import Memory, Query, Recollection
from agentfw.optimizer import Advantage, Loss, Optimizer, Scored
from agentfw.scores import RewardModel, Score
from agentfw.testing import check_component, checks, contract, sample_group
from agentfw.testing.checks import run_check
from agentfw.testing.memories import others_go_on_while_it_works
from agentfw.tool import Tool, tool
from agentfw.tracker import Tracker


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


# -- memories ----------------------------------------------------------------------------------------------------------


class Notebook(Memory):
    """Remembers the last answer of each episode, by user."""

    def __init__(self) -> None:
        self.notes: dict[tuple[str, str], str] = {}
        self.asked: dict[str, int] = {}

    def begin(self, task: Task) -> None:
        self.asked.pop(task.id, None)

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.asked[query.task.id] = self.asked.get(query.task.id, 0) + 1
        notes = [note for (user, _), note in self.notes.items() if user == query.user]
        return [Recollection(note) for note in notes[: query.limit]]

    async def learn(self, episode: Episode, reward: float) -> None:
        text = episode.turns[-1].text if episode.turns else "nothing happened"
        self.notes[episode.task.user, episode.id] = f"{text} ({self.asked.get(episode.id, 0)} times asked)"


class Appending(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes[episode.task.user, f"{episode.id} {len(self.notes)}"] = episode.turns[-1].text


class Unbounded(Notebook):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        return await super().recall(replace(query, limit=1000))


class NeverForgets(Notebook):
    def begin(self, task: Task) -> None:
        pass


class Drafts(Notebook):
    """Its tool keeps lines for the episode, and nobody ever takes them away."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, list[str]] = {}

    def tools(self, task: Task) -> Sequence[Tool]:
        lines = self.lines.setdefault(task.id, [])

        async def draft(line: str) -> str:
            """Add a line to the draft."""
            lines.append(line)
            return " / ".join(lines)

        return [tool(draft)]


class SingleUser(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        if episode.task.user != "user":
            raise PermissionError(episode.task.user)
        await super().learn(episode, reward)


class CStrings(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        if any("\x00" in turn.text for turn in episode.turns):
            raise ValueError("embedded null character")
        await super().learn(episode, reward)


class NeedsNotes(Notebook):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        found = await super().recall(query)
        return [found[0], *found[1:]]


class Locking(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        lock = Path("memory.lock")
        lock.touch(exist_ok=False)
        await asyncio.sleep(0.01)
        lock.unlink()
        await super().learn(episode, reward)


class LastTurnOnly(Notebook):
    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes[episode.task.user, episode.id] = episode.turns[-1].text


class OneForAll(Notebook):
    """Forgets whose notes they are."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.asked[query.task.id] = self.asked.get(query.task.id, 0) + 1
        return [Recollection(note) for note in self.notes.values()][: query.limit]


class OneFileForAllRuns(Notebook):
    """Keeps its notes in the working directory, where a second run finds them, and takes its own for known ones."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        self.notes = {tuple(key): note for key, note in json.loads(self._read())}
        return await super().recall(query)

    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes = {tuple(key): note for key, note in json.loads(self._read())}
        if (episode.task.user, episode.id) not in self.notes:
            await super().learn(episode, reward)
        Path("notes.json").write_text(json.dumps(list(self.notes.items())))

    def _read(self) -> str:
        return Path("notes.json").read_text() if Path("notes.json").exists() else "[]"


class OneFileForTwo(Notebook):
    """Keeps each user's notes under a name that another user may have, too; only the last writer is found there."""

    def __init__(self) -> None:
        super().__init__()
        self.writer: dict[str, str] = {}

    async def learn(self, episode: Episode, reward: float) -> None:
        user = episode.task.user
        file = "".join(letter if letter.isalnum() else "-" for letter in user.lower())
        if self.writer.setdefault(file, user) != user:
            self.notes = {key: note for key, note in self.notes.items() if key[0] != self.writer[file]}
            self.writer[file] = user
        await super().learn(episode, reward)


class Blocking(Notebook):
    async def recall(self, query: Query) -> Sequence[Recollection]:
        time.sleep(0.5)
        return await super().recall(query)


class BrokenTool(Notebook):
    def tools(self, task: Task) -> Sequence[Tool]:
        def stamp(day: int) -> str:
            """Stamp a day."""
            raise KeyError(day)

        return [tool(stamp)]


class BadTools(Notebook):
    def tools(self, task: Task) -> Sequence[Tool]:
        return [double, double]


# -- rewards -----------------------------------------------------------------------------------------------------------


class Turns(RewardModel):
    def score_of(self, episode: Episode) -> Score:
        return Score(episode.id, "turns", float(len(episode.turns)))

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [self.score_of(episode) for episode in group]


class NoNumber(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=float("nan"))


class Elsewhere(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), episode="00099-0")


class OffTrack(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), track="private")  # type: ignore[arg-type]


class Moody(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=random.random())


class Comparing(Turns):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [replace(self.score_of(group[0]), value=stdev(len(episode.turns) for episode in group))]


class FirstTurn(Turns):
    def score_of(self, episode: Episode) -> Score:
        return replace(super().score_of(episode), value=float(episode.turns[0].count))


class Tidying(Turns):
    def score_of(self, episode: Episode) -> Score:
        episode.events.clear()
        return super().score_of(episode)


# -- optimizers --------------------------------------------------------------------------------------------------------


class Centred(Optimizer):
    def __init__(self) -> None:
        self.seen = 0

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return reward - sum(rewards) / len(rewards)

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        self.seen += len(groups)
        return [
            Advantage(scored.episode.id, turn.index, self.value(scored.reward, [one.reward for one in group]))
            for group in groups
            for scored in group
            for turn in scored.episode.turns
        ]

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


class Dividing(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / pstdev(rewards)


class Sampling(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / (stdev(rewards) + 1e-6)


class Drifting(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return super().value(reward, rewards) / self.seen


class Amnesic(Drifting):
    def restore(self, state: Mapping[str, Any]) -> None:
        pass


class SecretState(Centred):
    def state(self) -> dict[str, Any]:
        return {"seen": {self.seen}}


class Beyond(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [replace(advantage, turn=advantage.turn + 1) for advantage in super().advantages(groups)]


class Doubled(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [*super().advantages(groups), *super().advantages(groups)]


class FirstOnly(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        assert groups[0][0].scores
        return super().advantages(groups)


class Shuffling(Centred):
    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        found = super().advantages(groups)
        for group in groups:
            group.reverse()  # type: ignore[attr-defined]
        return found


class Squaring(Centred):
    """A spread of its own making, which small rewards underflow and great ones overflow."""

    def value(self, reward: float, rewards: Sequence[float]) -> float:
        mean = sum(rewards) / len(rewards)
        squares = sum((one - mean) ** 40 for one in rewards)
        return (reward - mean) / squares if any(one != mean for one in rewards) else 0.0


class Noisy(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return random.random()


class Insatiable(Centred):
    """Never has enough."""

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        return wanted


class Fractional(Centred):
    """Wants half a group."""

    def missing(self, groups: Sequence[Sequence[Scored]], wanted: int) -> int:
        return 0.5  # type: ignore[return-value]


class NoLoss(Centred):
    def loss(self) -> Loss:
        return Loss("")


class Unmeasured(Centred):
    def metrics(self) -> Mapping[str, float]:
        return {"groups": 0.0 if self.seen else float("nan")}


class Indifferent(Centred):
    def value(self, reward: float, rewards: Sequence[float]) -> float:
        return 0.0


# -- learners ----------------------------------------------------------------------------------------------------------


class Writer(Learner):
    def __init__(self) -> None:
        self.updates = 0

    def update(self, batch: Batch) -> Update:
        if not batch.advantages:
            raise SettingsError("nothing to learn from", fix="score the episodes first")
        self.updates += 1
        batch.folder.mkdir()
        adapter = batch.folder / "adapter.json"
        adapter.write_text("{}", "utf-8")
        return Update(f"v{self.updates}", adapter, {"turns": float(len(batch.advantages))})

    def state(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.updates = state["updates"]


class Forgetful(Writer):
    """Gives its memory back, and what it has learned with it."""

    def rest(self) -> None:
        self.updates = 0

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return [-1.0 / (1 + self.updates) for _ in token_ids]


class Stray(Writer):
    def update(self, batch: Batch) -> Update:
        (batch.folder.parent / f"log-{self.updates}.txt").write_text("done", "utf-8")
        return super().update(batch)


class Overwriting(Writer):
    def update(self, batch: Batch) -> Update:
        for adapter in batch.folder.parent.glob("*/adapter.json"):
            adapter.write_text('{"stale": true}', "utf-8")
        return super().update(batch)


class OneVersion(Writer):
    def update(self, batch: Batch) -> Update:
        return replace(super().update(batch), version="latest")


class Promising(Writer):
    def update(self, batch: Batch) -> Update:
        return replace(super().update(batch), adapter=batch.folder / "model.safetensors")


class HalfWritten(Writer):
    def update(self, batch: Batch) -> Update:
        if not batch.advantages:
            batch.folder.mkdir()
            (batch.folder / "tokens.bin").write_bytes(b"")
        return super().update(batch)


class Averaging(Writer):
    def update(self, batch: Batch) -> Update:
        mean = sum(advantage.value for advantage in batch.advantages) / len(batch.advantages)
        return replace(super().update(batch), metrics={"advantage": mean})


class LivePath(Writer):
    def state(self) -> dict[str, Any]:
        return {"folder": Path("somewhere")}


class Consuming(Writer):
    def update(self, batch: Batch) -> Update:
        for episode in batch.episodes:
            episode.turns.pop()
        return super().update(batch)


# -- trackers ----------------------------------------------------------------------------------------------------------


class Lines(Tracker):
    def __init__(self) -> None:
        self.file: Any = None

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self.file = (folder / "figures.txt").open("a", encoding="utf-8")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.file.write(f"{step} {dict(metrics)}\n")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


class Strict(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            int(value * 1000)
            name.encode("ascii")


class Once(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        (folder / run).mkdir()
        super().begin(run, folder, settings)


class NeedsBegin(Lines):
    def close(self) -> None:
        self.file.close()


class Cleaning(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        for file in folder.iterdir():
            file.unlink()
        super().begin(run, folder, settings)


class UnknownSettings(Lines):
    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        super().begin(run, folder, {key: value + 0 for key, value in settings.items()})


GOOD = {
    "memory": Notebook,
    "reward": Turns,
    "optimizer": Centred,
    "learner": Writer,
    "tracker": Lines,
}
BROKEN: list[tuple[str, type, str]] = [
    ("memory", NeedsNotes, "an_empty_memory_answers"),
    ("memory", Unbounded, "it_keeps_to_the_limit"),
    ("memory", Appending, "learning_twice_is_learning_once"),
    ("memory", OneFileForAllRuns, "two_runs_are_strangers"),
    ("memory", NeverForgets, "a_broken_off_attempt_is_forgotten"),
    ("memory", Drafts, "a_broken_off_attempt_is_forgotten"),
    ("memory", SingleUser, "other_users_do_no_harm"),
    ("memory", CStrings, "any_text_will_do"),
    ("memory", LastTurnOnly, "odd_episodes_will_do"),
    ("memory", Locking, "two_at_once_will_do"),
    ("memory", OneForAll, "users_do_not_see_each_other"),
    ("memory", OneFileForTwo, "users_do_not_overwrite_each_other"),
    ("memory", Doubling, "hearing_twice_is_hearing_once"),
    ("memory", Stubborn, "what_is_corrected_is_replaced"),
    ("memory", Keeping, "what_is_deleted_is_gone"),
    ("memory", Public, "users_change_only_their_own"),
    ("memory", BrokenTool, "its_tools_work"),
    ("memory", BadTools, "its_tools_can_be_offered"),
    ("reward", NoNumber, "scores_can_be_used"),
    ("reward", Elsewhere, "scores_can_be_used"),
    ("reward", OffTrack, "scores_can_be_used"),
    ("reward", Moody, "the_same_gets_the_same"),
    ("reward", Comparing, "a_group_of_one_will_do"),
    ("reward", FirstTurn, "odd_episodes_will_do"),
    ("reward", Comparing, "no_group_gives_no_scores"),
    ("reward", Tidying, "episodes_stay_as_they_are"),
    ("optimizer", Beyond, "advantages_can_be_used"),
    ("optimizer", Doubled, "advantages_can_be_used"),
    ("optimizer", Indifferent, "advantages_can_be_used"),
    ("optimizer", Dividing, "equal_rewards_will_do"),
    ("optimizer", Sampling, "a_group_of_one_will_do"),
    ("optimizer", FirstOnly, "episodes_without_turns_or_scores_will_do"),
    ("optimizer", FirstOnly, "nothing_gives_nothing"),
    ("optimizer", Squaring, "great_and_tiny_rewards_will_do"),
    ("optimizer", Amnesic, "it_goes_on_where_it_was"),
    ("optimizer", SecretState, "it_goes_on_where_it_was"),
    ("optimizer", Noisy, "the_same_gets_the_same"),
    ("optimizer", Shuffling, "scores_stay_as_they_are"),
    ("optimizer", Insatiable, "it_stops_asking_for_groups"),
    ("optimizer", Fractional, "it_stops_asking_for_groups"),
    ("optimizer", NoLoss, "it_names_its_loss"),
    ("optimizer", Unmeasured, "its_figures_are_numbers"),
    ("learner", Promising, "an_update_gives_an_adapter"),
    ("learner", Stray, "what_was_there_stays"),
    ("learner", Overwriting, "what_was_there_stays"),
    ("learner", OneVersion, "what_was_there_stays"),
    ("learner", LivePath, "a_repeated_update_will_do"),
    ("learner", Forgetful, "a_rest_does_no_harm"),
    ("learner", HalfWritten, "an_empty_batch_does_no_harm"),
    ("learner", Averaging, "an_empty_batch_does_no_harm"),
    ("learner", Consuming, "episodes_stay_as_they_are"),
    ("tracker", UnknownSettings, "a_run_can_be_tracked"),
    ("tracker", Strict, "odd_figures_will_do"),
    ("tracker", Once, "a_broken_off_run_goes_on"),
    ("tracker", NeedsBegin, "closing_is_always_fine"),
    ("tracker", Cleaning, "the_run_folder_stays_whole"),
]


def failures(kind: str, factory: Any) -> dict[str, str]:
    return {result.name: result.detail for result in check_component(kind, factory) if not result.passed}


@pytest.mark.parametrize("kind", list(GOOD))
def test_a_good_component_keeps_every_promise(kind: str) -> None:
    assert failures(kind, GOOD[kind]) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "broken", "check"), BROKEN, ids=[f"{b.__name__}-{c}" for _, b, c in BROKEN])
def test_a_broken_promise_is_named(kind: str, broken: type, check: str) -> None:
    found = failures(kind, broken)

    assert check in found
    assert found[check], "it must say how"


@pytest.mark.slow
def test_a_memory_that_keeps_others_waiting_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "BLOCKED_SECONDS", 0.1)

    result = run_check(others_go_on_while_it_works, Blocking, episodes=sample_group(0, 2), time_limit=60)

    assert not result.passed
    assert "recalling, it kept everything else waiting" in result.detail
    assert "(test_testing_learning.py, line " in result.detail


def test_every_promise_is_broken_by_one_of_these() -> None:
    caught = {(kind, check) for kind, _, check in BROKEN} | {("memory", others_go_on_while_it_works.__name__)}

    promised = {(kind, check.__name__) for kind in GOOD for check in contract(kind)[3:]}

    assert promised - caught == set()
