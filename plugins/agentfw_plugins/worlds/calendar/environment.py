"""The environment `calendar`: a user's year of conflicts, one decision each, with feedback after each.

The agent sees the events and what the user says afterwards, never a weight. The right answer of a round follows from
the user's hidden principles alone. What an agent reads in a round (event_attributes.py has the tags of a line):

    feedback: wrong, A was taken and C is kept. "Not this time. Whoever works for me gets my time."
    conflict: week 6, Tue 10:00, for Hana Weber (postdoc, research lab)
    also that day: 13:00 Journal club
    A: Catch-up on Ember | start=10:00 min=30 by=peer who=peer size=3 topic=delivery place=video
    B: ...

The feedback line is about the round before. An agent has up to K turns a round; calls of a memory's tools are turns,
and the round ends at its first `decide`. A decision that can't be understood, or none after K turns, makes the round
wrong. The prompting styles are the settings of PEARL's evaluation (its section 4 and appendix D), in words of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, Literal

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Settings, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.printing.out import docs_page
from agentfw.request import Brief
from agentfw.seeds import Seeds
from agentfw.timeline import Scheduled

from .baselines import CHECKPOINTS, episode_figures, rank_distance, references
from .dataset import SPLITS, Calendar, Dataset, schemas_of
from .event_attributes import LETTERS, RULES, clock, event_line
from .organisation import User
from .regular_year import DAY_NAMES, ROUNDS, Round
from .schema import Schema

__all__ = [
    "STYLES",
    "CalendarConflicts",
    "CalendarSettings",
    "Feedback",
    "Letter",
    "Style",
    "feedback_on",
    "instructions",
    "with_letters",
]

Letter = Literal["A", "B", "C", "D", "E"]
_STYLES = docs_page("docs/reference/calendar.md")
_NAMED = re.compile(r"(?:EVENT\s+)?([A-E])(?:[:.)\s].*)?", re.S)


class CalendarSettings(Settings):
    rounds: int = Field(ROUNDS, ge=1, le=ROUNDS, description="Number of conflicts per episode (N).")
    conflicts: int = Field(5, ge=2, le=len(LETTERS), description="Number of events per conflict (M).")
    turns: int = Field(4, ge=1, description="Maximum number of turns per conflict (K).")
    style: Style = Field("plain", description=f"Prompting style for language models (see {_STYLES}).")
    data_seed: int = Field(7, ge=0, description="Seed of the generated users; the run's seed doesn't change them.")
    organisations: str = Field("", description="Directory of YAML files of organisations. Default: those that ship.")
    users_each: int = Field(5, ge=1, le=30, description="Number of users per organisation.")
    train_organisations: int = Field(40, ge=1, description="Number of organisations in the split train.")
    validation_organisations: int = Field(4, ge=1, description="Number of organisations in the split validation.")
    test_organisations: int = Field(2, ge=1, description="Number of organisations in the split test.")

    def dataset(self) -> Dataset:
        counts = (self.train_organisations, self.validation_organisations, self.test_organisations)
        schemas = schemas_of(self.organisations)
        return Dataset(self.data_seed, schemas, self.users_each, dict(zip(SPLITS, counts, strict=True)))


class CalendarConflicts(Environment):
    """You keep somebody's calendar. Now and then several events fall into the same hour and only one of them can be
    kept.

    Each event is one line: a letter, the title, and tags that say when it is, who organises it and who comes, how many
    they are, what it is about, how urgent it is and whether something is due, where it takes place, whether it is part
    of a series, when it was called, and whether it can be moved. Tags that would say nothing special are left out.
    Decide which event this person would keep, and rank all events from the one they would keep first to the one they'd
    drop first. Nobody tells you what they care about. After each decision they say which event they kept and one thing
    that mattered to them; learn from it. The number in brackets above a message is the time, in hours since the year's
    first conflict.
    """

    headline = "error"
    lower_is_better = True
    columns = {  # noqa: RUF012 - as the base class has it
        **{f"aer@{count}": f"@{count}" if place else f"AER@{count}" for place, count in enumerate(CHECKPOINTS)},
        "ord": "ORD",
        "error_reduction": "reduction",
    }
    time_unit = "hours"
    meanings = {  # noqa: RUF012 - as the base class has it
        "AER@N": "share of wrong decisions in the first N rounds; aer: in all of them",
        "ORD": "how well all events are put in order, from 0.5 by chance to 1",
        "reduction": "how much of the error is gone in the last quarter, against the first",
        "invalid": "share of rounds without a valid decision",
    }

    def __init__(self, settings: CalendarSettings | None = None) -> None:
        self.settings = settings or CalendarSettings()

    def goal(self) -> str:
        return instructions(super().goal(), self.settings.style)

    def brief(self) -> Brief:
        """Offer only the letters of a round."""
        brief = super().brief()
        letters = list(LETTERS[: self.settings.conflicts])
        actions = []
        for offered in brief.actions:
            properties = {name: dict(schema) for name, schema in offered.parameters["properties"].items()}
            properties["accept"]["enum"] = letters
            properties["ranking"]["items"] = {"type": "string", "enum": letters}
            del properties["ranking"]["default"]  # a decision without one counts, but it is scored
            parameters = {**offered.parameters, "properties": properties, "required": ["accept", "ranking"]}
            actions.append(replace(offered, parameters=parameters))
        return replace(brief, actions=tuple(actions))

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """Each user of the split once, then each of them with a second year, and so on."""
        users = self.settings.dataset().users(split)
        seeds = Seeds(seed).child(split)
        return [
            Task(index, seeds.integer("task", index), users[index % len(users)], split=split) for index in range(count)
        ]

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._calendar = _calendar_of(self.settings, task)
        self._said = Seeds(self.settings.data_seed).random("feedback", self._calendar.user.id, task.index)
        self._invalid = self._number = self._turns = 0
        self._is_open = self._decided = False
        self._next: Scheduled | None = None
        self._feedback: tuple[dict[str, Any], str] | None = None
        self._open()

    # -- what the agent can do -----------------------------------------------------------------------------------------

    @action
    def decide(self, accept: Letter, ranking: list[Letter] = [], reason: str = "") -> None:  # noqa: B006
        """Keep one event and decline the others.

        accept: the letter of the event to keep
        ranking: the letters of all events, the one to keep first
        reason: why, in a few words
        """
        letters = self._shown.letters
        if accept not in letters:
            raise InterventionRefused(f"there is no event {accept}; there is {', '.join(letters)}")
        self._close(accept, list(ranking) or [accept], sorted(ranking) == list(letters))

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name != "decide":
            super().intervene(intervention)
            return
        if not self._is_open:
            raise InterventionRefused("no conflict is open; the next one comes by itself")
        try:
            super().intervene(with_letters(intervention))
        except InterventionRefused:
            # The round ends at the first decision, even if it can't be parsed.
            self._close(None, [], False)
            raise

    def turned(self, turn: Turn) -> None:
        decided, self._decided = self._decided, False
        if not self._is_open:
            # What is still to come of this turn, an answer or a refusal, comes together with the next conflict: so
            # nobody is asked in between about nothing, who might answer nothing for ever.
            if len(turn.calls) > decided or turn.failures:
                self._open_now()
            return
        self._turns += 1
        left = self.settings.turns - self._turns
        if left == 0:
            self._close(None, [], False)
            if turn.calls:
                self._open_now()
        elif not turn.calls:
            words = f"undecided: {left} more turn{'s' if left > 1 else ''} for this conflict."
            self.world.observe("undecided", {"round": self._number, "turns_left": left}, text=words)

    # -- what happens --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Show the next conflict, with the feedback on the last one."""
        if self._is_open:
            # An agent that was still thinking has missed it.
            self._close(None, [], False)
        self._shown: Round = self._calendar.rounds[self._number]
        self._number += 1
        self._turns, self._is_open, self._decided = 0, True, False
        self.world.round(self._number, of=self.settings.rounds)
        if self._feedback is not None:
            self.world.observe("feedback", self._feedback[0], text=self._feedback[1])
            self._feedback = None
        data, text = self._conflict()
        self.world.observe("conflict", data, text=text)
        self._next = None
        if self._number < self.settings.rounds:
            # In hours since the first conflict.
            first, shown = self._calendar.rounds[0], self._calendar.rounds[self._number]
            begins = [found.events[found.anchor].start for found in (first, shown)]
            following = (shown.day - first.day) * 24 + (begins[1] - begins[0]) / 60
            self._next = self.world.at(max(following, self.world.now), self._open)

    def _open_now(self) -> None:
        if self._next is not None:
            self.world.cancel(self._next)
            self._open()

    def _close(self, letter: str | None, ranking: list[str], complete: bool) -> None:
        """End the round: record its result. The feedback reminds of what was decided, and of what came second."""
        answer, letters = self._shown.answer, self._shown.letters
        self._is_open, self._decided = False, letter is not None
        right = letter == answer
        self._invalid += letter is None
        self.world.measure("error", float(not right))
        self.world.measure("ord", rank_distance(answer, ranking, len(letters)))
        self.world.measure("format", float(letter is not None and complete))
        title = next((e.shown for e, one in zip(self._shown.events, letters, strict=True) if one == letter), "nothing")
        name, week = self._calendar.user.name, self._shown.week + 1
        self.world.utility(float(right), f"{name}, week {week}: kept {title}: {'right' if right else 'wrong'}")
        second = next((one for one in ranking if one in letters and one != letter), "")
        chosen = None if letter is None else letters.index(letter)
        found = feedback_on(self._shown, chosen, self._calendar.user, self._said)
        if letter is None:
            verdict = f"none, nothing was taken and {answer} is kept."
        elif right:
            verdict = f"right, {answer} is kept before {second}." if second else f"right, {answer} is kept."
        else:
            verdict = f"wrong, {letter} was taken and {answer} is kept."
        data = {
            "round": self._number,
            "accepted": answer,
            "chosen": letter or "",
            "second": second,
            "right": right,
            "because": {"principle": found.principle, "valued": found.valued},
            "said": found.said,
            "by": "user",
        }
        self._feedback = data, f'feedback: {verdict} "{found.said}"'
        if self._number == self.settings.rounds:
            self.world.observe("feedback", self._feedback[0], text=self._feedback[1])
            self.world.finish(**self.outcome())

    def _conflict(self) -> tuple[dict[str, Any], str]:
        """A round as values and as text."""
        shown, user = self._shown, self._calendar.user
        anchor = shown.events[shown.anchor]
        that_day = [event for event in self._calendar.events if event.day == shown.day]
        apart = [event for event in that_day if event.end <= anchor.start or event.start >= anchor.end]
        every = list(zip(shown.letters, shown.events, shown.tags, strict=True))
        data = {
            "round": self._number,
            "week": shown.week + 1,
            "when": f"{DAY_NAMES[shown.day % 7]} {clock(anchor.start)}",
            "user": user.name,
            "role": user.role.title,
            "organisation": user.organisation.name,
            "archetype": user.organisation.schema.archetype,
            "events": [{"letter": letter, "title": event.shown, **tags} for letter, event, tags in every],
            "also": [{"start": clock(event.start), "title": event.title} for event in apart],
        }
        whose = f"{data['user']} ({data['role']}, {data['archetype']})"
        lines = [f"conflict: week {data['week']}, {data['when']}, for {whose}"]
        if apart:
            lines.append("also that day: " + ", ".join(f"{clock(event.start)} {event.title}" for event in apart))
        lines += [event_line(letter, event.shown, tags) for letter, event, tags in every]
        return data, "\n".join(lines)

    # -- how it went ---------------------------------------------------------------------------------------------------

    def outcome(self) -> Mapping[str, float]:
        """The benchmark's figures over the rounds played, with `aer@N` for each N that was reached."""
        return episode_figures(self.world.episode.series("error"), self.world.episode.series("ord"), self._invalid)

    def describe(self, tasks: Sequence[Task]) -> str:
        users = {task.user for task in tasks}
        rounds = f"{self.settings.rounds} rounds of {self.settings.conflicts} events"
        if len(users) > 1:
            return f"{len(users)} users   {rounds}"
        user = _calendar_of(self.settings, tasks[0]).user
        return f"{user.name}, {user.role.title} ({user.organisation.schema.archetype})   {rounds}"

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return references(_calendar_of(self.settings, task), Seeds(task.seed).random("reference"))

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """The demonstration: the simple rule that keeps what is most urgent."""
        for observation in moment.of("conflict"):
            ranking = RULES["most_urgent"](observation.data["events"])
            yield Intervention("decide", {"accept": ranking[0], "ranking": ranking, "reason": "it is the most urgent"})


def with_letters(decision: Intervention) -> Intervention:
    """Normalise the letters of a decision, however they are written: b, "B:", "event B", 2."""
    found = dict(decision.arguments)
    if "accept" in found:
        found["accept"] = _letter(found["accept"])
    if isinstance(found.get("ranking"), list):
        found["ranking"] = [_letter(item) for item in found["ranking"]]
    return replace(decision, arguments=found)


def _letter(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return value
    text = str(value).strip().upper()
    if text.isdigit() and len(text) == 1 and 1 <= int(text) <= len(LETTERS):
        return LETTERS[int(text) - 1]
    return named[1] if (named := _NAMED.fullmatch(text)) else value


def _calendar_of(settings: CalendarSettings, task: Task) -> Calendar:
    """The year of a task, by the organisations as they are described now."""
    return _calendar(settings, schemas_of(settings.organisations), task.user, task.split, task.index)


@lru_cache(maxsize=64)
def _calendar(settings: CalendarSettings, _: Sequence[Schema], user: str, split: str, index: int) -> Calendar:
    """A user id that isn't from this data set stands for the user at the task's index."""
    dataset = settings.dataset()
    users = dataset.users(split) if split in SPLITS else dataset.users("test")
    identity = user if user in users else users[index % len(users)]
    return dataset.calendar(
        dataset.user(identity), year=index // len(users), rounds=settings.rounds, conflicts=settings.conflicts
    )


_RIGHT = (
    "Yes, that one.",
    "Right.",
    "Exactly.",
    "Good, I'd have done the same.",
    "Thanks, just so.",
    "That's the one.",
)
_WRONG = ("No, not that one.", "I'd have kept another.", "Sorry, no.", "That wasn't it.", "Not this time.", "No.")
_NONE = ("I had to sort it out myself.", "You left me with all of them.", "Nobody decided, so I did.")


@dataclass(frozen=True, slots=True)
class Feedback:
    """The feedback on one round."""

    principle: str
    """Name of the principle that the words are about."""
    valued: bool
    """True if the kept event has something the user values, False if the other has something they dislike."""
    said: str


def feedback_on(shown: Round, chosen: int | None, user: User, generator: Random) -> Feedback:
    """The event that the user keeps, and a reason in their own words; `chosen` is None if there was no valid choice.

    The reason names one thing that really spoke for the kept event and its direction, never how much, and never
    everything.
    """
    kept = shown.tags[shown.accepted]
    if chosen is None or chosen == shown.accepted:
        other = max((tags for place, tags in enumerate(shown.tags) if place != shown.accepted), key=user.value)
    else:
        other = shown.tags[chosen]
    spoke = [
        name
        for name, weight in user.weights.items()
        if weight * (user.principles[name].triggers(kept) - user.principles[name].triggers(other)) > 0
    ]
    # There always is one, because the kept event is worth more than any other.
    (name,) = generator.choices(spoke, [abs(user.weights[one]) for one in spoke])
    principle, valued = user.principles[name], user.weights[name] > 0
    words = generator.choice(principle.praise if valued else principle.complaint)
    openings = _NONE if chosen is None else _RIGHT if chosen == shown.accepted else _WRONG
    return Feedback(name, valued, f"{generator.choice(openings)} {words[0].upper()}{words[1:]}.")


Style = Literal["plain", "zero_shot", "react", "memory_react", "strategyhub"]

STYLES: Mapping[Style, str] = {
    "plain": "",
    "zero_shot": """\
Answer each conflict at once, by calling `decide`: one event to keep, a ranking with the letters of all events, and a
short reason.""",
    "react": """\
Think before you decide, and let it be seen. Write <reasoning> first: go through the events one by one, say what speaks
for and against each, and weigh them for this person. Close it with </reasoning>. Then decide, by calling `decide`
with one event to keep, a ranking with the letters of all events, and a short reason. Nothing counts as a decision but
that one call.""",
    "memory_react": """\
Work in three steps, and let them be seen. Write <observation> first: of the earlier conflicts that you can still see,
say which event this person kept, what you had taken, and what they gave as the reason. Close it with </observation>.
Then write <reasoning>: what these choices have in common, and what that means for each of the events at hand. Close it
with </reasoning>. Then decide, by calling `decide` with one event to keep, a ranking with the letters of all events,
and a short reason. Nothing counts as a decision but that one call.""",
    "strategyhub": """\
You have a notebook about this person: the tool `strategy_hub`. It holds a few short strategies and stays with you when
the conversation is cut off. At each conflict, list it first. Compare what it says with what the person kept last: where
a strategy was wrong, too broad or missing, put a better list in its place with an update; where it was right, leave it.
Write down what decides and how much it counts, not single events. Then decide by it: call `decide` with one event to
keep, a ranking with the letters of all events, and a short reason. Every call is a turn, and there are only a few for
each conflict: the decision has to be among them.""",
}
"""Text added after the environment's own goal."""


def instructions(goal: str, style: Style) -> str:
    """The instructions for a model."""
    return f"{goal}\n\n{STYLES[style]}".rstrip()
