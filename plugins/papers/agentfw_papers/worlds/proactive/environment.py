"""The environment `proactive`: follow a conversation and say in time which actions will be needed.

Two people talk. After each turn the agent says which actions of a catalog will be needed, with which inputs, and which
of them could be triggered now. The dialogue never reacts. Answers are compared with references that were made with
hindsight.

    agentfw run proactive                                             # every player beside a late one
    agentfw run proactive-reasoning --policy openai --set policy.model=gpt-5-mini
    agentfw run proactive --set environment.domain=my_domain --set environment.data=annotated

An episode is one turn of a dialogue (`unit = "turn"`), which is what the ProActor paper trains on (section 3.3), or a
whole dialogue. An agent never reads a reference, nor a turn that is still to come. The number of turns isn't told
either, since it is part of the future.

The environment reads the answer itself, from the text: inputs such as <email> would break calls. What can't be read is
an empty prediction and measured as `format` 0. In a dialogue, a prediction counts at the turn that has been reached
when it lands. The paper leaves open which turns are scored; here it is all turns at which the agent is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agentfw import Environment, Intervention, Moment, Task, Turn, World, action
from agentfw.request import Brief
from agentfw.seeds import Seeds
from agentfw.timeline import Scheduled, Time
from agentfw_papers.timing import (
    Answer,
    Catalog,
    Dependencies,
    Dialogue,
    Encode,
    Opportunity,
    TurnOpportunities,
    next_questions,
    read_answer,
    read_value,
)
from agentfw_plugins.rewards import translated_errors

from .asg import ActionStates, observed
from .conversations import Asked, asked_turns, conversations
from .dataset import Example
from .domains import domain_names, load_domain
from .figures import Tally
from .phrases import Phrases
from .players import PLAYERS
from .prompting import dialogue_lines, instructions, prediction, write_answer, write_states
from .settings import ProactiveSettings


class Proactive(Environment):
    """Foresee which actions a conversation will need."""

    headline = "balance"
    columns = {  # noqa: RUF012 - as the base class has it
        "balance": "balance",
        "ac": "AC",
        "max_ac": "Max AC",
        "pt": "PT",
        "ftr": "FTR",
        "rar": "RAR",
        "silent": "silent",
        "missed": "missed",
    }
    meanings = {  # noqa: RUF012 - as the base class has it
        "AC": "agreement with the reference's actions and inputs",
        "Max AC": "the same, of the best prediction of a turn",
        "PT": "share of predictions that are ready in time",
        "FTR": "share of ready predictions whose action is never needed",
        "RAR": "share of predictions that are ready",
        "silent": "share of turns without a prediction",
        "missed": "share of turns at which an action was expected and nothing was predicted",
    }

    def __init__(self, settings: ProactiveSettings | None = None) -> None:
        self.settings = settings or ProactiveSettings()
        self.domain = load_domain(self.settings.domain or domain_names()[0])
        self.catalog: Catalog = self.domain.catalog
        self._encode = _encoder(self.settings.encoder) if self.settings.questions else None

    def goal(self) -> str:
        return instructions(self.settings, self.catalog)

    def brief(self) -> Brief:
        brief = super().brief()
        return replace(brief, plain=True, actions=brief.actions if self.settings.answers == "calls" else ())

    def time_per_token(self) -> float:
        return self.settings.time_per_token

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """Turns or dialogues in the order that `data_seed` gives, whatever the seed of the run."""
        seeds = Seeds(seed).child(split)
        return [
            Task(index, seeds.integer("task", index), self._asked(index, split).example.id, split=split)
            for index in range(count)
        ]

    def example(self, task: Task) -> Example:
        """The dialogue of a task, with its references."""
        return self._asked(task.index, task.split).example

    def _asked(self, index: int, split: str) -> Asked:
        return conversations(self.settings, split).task(index)

    def _tally(self) -> Tally:
        whole = self.settings.unit == "dialogue" and self.catalog.workflows
        return Tally(
            silence=self.settings.silence,
            pt_of=self.settings.pt_of,
            catalog=self.catalog,
            dependencies=Dependencies.of(self.catalog) if whole else None,
            encode=self._encode,
        )

    # -- the dialogue --------------------------------------------------------------------------------------------------

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._example, self._turns = self._asked(task.index, task.split)
        self._dialogue: Dialogue = self._example.dialogue
        self._tally_of_episode = self._tally()
        self._states = ActionStates(self.settings.transitions)
        self._delays: list[int] = []
        self._place = -1
        self._answer: Answer | None = None
        self._called: Answer | None = None
        self._next: Scheduled | None = None
        self._start = self._time_of(0)
        self._open()

    @property
    def _number(self) -> int:
        """The turn that has been reached."""
        return self._turns[self._place]

    def _time_of(self, place: int) -> Time:
        number = self._turns[place]
        time = self._dialogue.turns[number - 1].time
        return number * self.settings.pace if time is None else time

    def _open(self) -> None:
        """Show what was said up to the next turn at which the agent is asked."""
        if self._place >= 0:
            self._close()
        self._place += 1
        number = self._number
        shown = self._turns[self._place - 1] if self._place else 0
        if self.domain.observed:
            for trigger in self._dialogue.triggers:
                if shown < trigger.turn <= number:
                    self._states.trigger(observed(trigger, self.catalog))
        # No total: how many turns there are is the future.
        self.world.round(number, 0)
        text = dialogue_lines(self._dialogue, shown + 1, number)
        if self.settings.style == "asg":
            text = f"{write_states(self._states)}\n\n{text}"
        self.world.observe("turn", {"number": number}, text=text)
        self._next = None
        if self._place + 1 < len(self._turns):
            following = self._time_of(self._place + 1) - self._start
            self._next = self.world.at(max(following, self.world.now), self._open)

    def _close(self) -> None:
        """Measure the turn: what landed last, or that nothing did."""
        answer, self._answer = self._answer or Answer(), None
        missing = self._states.missing() if self.settings.questions else None
        self._states.predict(answer.opportunities)
        reference = self._reference(self._example, self._number)
        figures = self._tally_of_episode.add(answer, reference, self._example.annotation.windows, missing)
        for name, value in figures.items():
            self.world.measure(name, value)

    def _reference(self, example: Example, number: int) -> TurnOpportunities:
        """What is expected at a turn, with the questions that the professional asks next if questions are measured."""
        reference = example.annotation.at(number)
        if not self.settings.questions or reference.questions:
            return reference
        return replace(reference, questions=next_questions(example.dialogue.turns, number, asks=self._asks))

    def _asks(self, text: str) -> bool:
        phrases = self.domain.phrases
        return bool(phrases.get("openings")) and Phrases.of(phrases, self.catalog.name).asks_for(text)

    # -- what the agent does -------------------------------------------------------------------------------------------

    @action
    def predict(self, opportunities: list[dict[str, Any]] = [], questions: list[str] = []) -> None:  # noqa: B006
        """Say which actions will be needed.

        opportunities: one object each with `name`, `status` and `inputs`, a mapping from names to values
        questions: what the professional should ask next
        """
        self._called = read_value({"opportunities": opportunities, "questions": questions}, self.catalog)

    def turned(self, turn: Turn) -> None:
        called, self._called = self._called, None
        self._answer = called or read_answer(turn.text, self.catalog)
        self._delays.append(self._place - self._turns.index(turn.round))
        if turn.round == self._turns[-1]:
            self._close()
            self.world.finish(**self.outcome())
        elif self._next is not None and (turn.failures or len(turn.calls) > (called is not None)):
            # What is still to come of this turn, such as a refusal, comes together with the next turn. Otherwise the
            # agent would be asked in between.
            self.world.cancel(self._next)
            self._open()

    # -- how it went ---------------------------------------------------------------------------------------------------

    def outcome(self) -> Mapping[str, float]:
        """Means over the turns so far. `delay` is the mean number of turns between a question and its answer."""
        found = self._tally_of_episode.outcome()
        if self.settings.unit == "dialogue":
            found["turns"] = float(self._place + 1)
            if self._delays:
                found["delay"] = sum(self._delays) / len(self._delays)
        return found

    def describe(self, tasks: Sequence[Task]) -> str:
        count = len({self.example(task).id for task in tasks})
        turns = sum(len(self._asked(task.index, task.split).turns) for task in tasks)
        return f"{self.catalog.name}   {turns} turns of {count} dialogue{'s' * (count != 1)}"

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        example, turns = self._asked(task.index, task.split)
        # A player knows at which turns it would be asked, also where an episode is only one of them.
        of_dialogue = asked_turns(example.dialogue, self.settings.ask)
        found = {}
        for name, player in PLAYERS.items():
            tally, predicted = self._tally(), player(example, self.catalog, of_dialogue)
            for turn in turns:
                tally.add(Answer(predicted[turn]), example.annotation.at(turn), example.annotation.windows)
            found[name] = tally.outcome()
        return found

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """The references of the turn before: right, but always late by a turn."""
        for observation in moment.of("turn")[-1:]:
            answer = self._reference_before(int(observation.data["number"]))
            if self.settings.answers == "calls":
                yield Intervention("predict", prediction(answer))
            else:
                yield write_answer(answer, self.settings.answers)

    def _reference_before(self, number: int) -> tuple[Opportunity, ...]:
        return self._example.annotation.at(number - 1).opportunities if number > 1 else ()


def read_turn(turn: Turn, catalog: Catalog) -> Answer:
    """The prediction of a recorded turn, read as the environment read it."""
    for call in reversed(turn.calls):  # the last one counts
        if call.name == "predict":
            return read_value(dict(call.arguments), catalog)
    return read_answer(turn.text, catalog)


@lru_cache(maxsize=4)
def _encoder(name: str) -> Encode:
    from agentfw_rewardmodels import open_encoder

    with translated_errors():
        return open_encoder(name).encode
