"""A personal assistant whose users have tastes that nobody told it, and who come back day after day.

One episode is one request of one user. The assistant searches, chooses and carries out, deals with what goes wrong, and
answers. Afterwards the user reacts. What memories make of that shows on the days that follow.

    agentfw run assistant
    agentfw run assistant --policy openai --set policy.base_url=... --memory skillgraph
    agentfw train assistant --optimizer parpo --learner assistant-linear --policy assistant-linear

`agentfw_plugins/worlds/assistant/keypoints.py` says what is scored. Rewards see the record and what users have stated.
Figures also know the hidden tastes.

After the closed loop of the parpo-psgm paper. The paper's users come from a benchmark and from a company's merchants;
these are generated, so that their true tastes are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.printing.out import counted
from agentfw.request import Action, Brief
from agentfw.seeds import Seeds

from .apps import LETTERS, Apps
from .assistant_settings import AssistantSettings
from .card import write_card
from .catalogue import Item
from .errands import Errand, Errands, Part, react
from .keypoints import Ending, Marks, keypoints_of, marks_of
from .own_log import OwnLog
from .references import figures_of_players
from .solver import Solver

_NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
_OFFER = {
    "type": "object",
    "properties": {"offer": {"type": "string", "description": "letter of the offer, such as A"}},
    "required": ["offer"],
    "additionalProperties": False,
}


@lru_cache(maxsize=4)
def _world(settings: str) -> Errands:
    """The people, the catalogue and the errands of one world, made once."""
    read = AssistantSettings.model_validate_json(settings)
    return OwnLog(read) if read.logs else Errands(read)


class Assistant(Environment):
    """You are a personal assistant. Do what the user asks for with the apps that you have, and choose what they like.

    Search before you choose. If a call fails, find another way. Put what has a time into the calendar, and tell guests
    by a mail to "guest". If others are concerned, look at the mails. End with `answer`, and say honestly what was done.
    """

    headline = "judge"
    columns: Mapping[str, str] = {
        "judge": "judge",
        "satisfaction": "satisfaction",
        "procedure": "procedure",
        "proactive": "proactive",
        "tool_success": "calls done",
    }

    def __init__(self, settings: AssistantSettings | None = None) -> None:
        self.settings = settings or AssistantSettings()
        self.errands = _world(self.settings.model_dump_json())
        self._scenario_of = {call: name for name, one in self.errands.domains.items() for call in one.calls}
        self.ended: Marks | None = None

    # The task

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        """Day after day, one request of every user a day."""
        seeds = Seeds(seed).child(split)
        found = []
        for index in range(count):
            user, day = self.errands.turn(split, index)
            found.append(
                Task(index, seeds.integer(user, day), user=user, split=split, query=self.errands.query(user, day))
            )
        return found

    def describe(self, tasks: Sequence[Task]) -> str:
        users, days = len({task.user for task in tasks}), max(self._day(task) for task in tasks)
        return f"{counted(users, 'user')}, {counted(days, 'day')}, {self.settings.difficulty} requests"

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.errand = self._errand(task)
        self.apps = Apps(self.errand)
        self.ended = None
        self._ending, self._stars, self._news = Ending(), math.nan, ""
        scenarios = [part.scenario.name for part in self.errand.parts]
        self._solver = Solver()
        known = [f"{view}: {text}" for view, text in self.profile().items() if view in ("about", *scenarios)]
        self._tell(
            "request",
            {"day": self.errand.day, "scenarios": scenarios, "social": self.errand.social, "apps": self._requested()},
            "\n".join([f"day {self.errand.day}: {self.errand.text}", *known]),
        )

    def profile(self) -> Mapping[str, str]:
        return dict(self.errand.person.profile) if hasattr(self, "errand") else {}

    def brief(self) -> Brief:
        brief = super().brief()
        offered = []
        for scenario in self.errands.domains.values():
            search, carry_out = scenario.calls
            offered.append(Action(search, f"Find {scenario.noun} for {scenario.name}.", _NOTHING))
            offered.append(Action(carry_out, f"Take one of the offers of {search}.", _OFFER))
        return replace(brief, actions=(*offered, *brief.actions))

    # What the agent can do

    def intervene(self, intervention: Intervention) -> None:
        self._ending = replace(self._ending, calls=self._ending.calls + 1)
        faults, self._news = len(self.apps.seen_faults), ""
        try:
            if intervention.name in self._scenario_of:
                self._use_app(intervention.name, dict(intervention.arguments))
            else:
                super().intervene(intervention)
        except InterventionRefused as refusal:
            if len(self.apps.seen_faults) == faults:
                self._ending = replace(self._ending, mistakes=self._ending.mistakes + 1)
            if self.settings.style == "card":  # the refusal itself answers the call, and isn't read by such a model
                self._news = f"failed: {refusal}"
                self._tell("card", {}, "")
            raise

    def _use_app(self, call: str, arguments: dict[str, Any]) -> None:
        name = self._scenario_of[call]
        search, _ = self.errands.domains[name].calls
        if call == search:
            if arguments:
                raise InterventionRefused(f"{call} takes no arguments")
            self._show(name, self.apps.search(name))
            return
        if set(arguments) != {"offer"} or not isinstance(arguments["offer"], str):
            raise InterventionRefused(f'{call} takes one argument, "offer", a letter')
        self._took(name, self.apps.carry_out(name, arguments["offer"].strip().upper()))

    @action
    def calendar_add(self, scenario: Annotated[str, Field(max_length=100)]) -> None:
        """Put what was booked into the user's calendar.

        scenario: what it was booked for, such as dining
        """
        entry = self.apps.enter(scenario.strip().casefold())
        self._tell("calendar", {"entry": entry}, f"in the calendar: {entry}")

    @action
    def mail_search(self) -> None:
        """Look at the user's mails of today."""
        mails = self.apps.inbox()
        self._tell("mails", {"mails": mails}, "\n".join(mails))

    @action
    def mail_send(
        self, to: Annotated[str, Field(max_length=200)], text: Annotated[str, Field(max_length=2000)]
    ) -> None:
        """Send a mail.

        to: name of an offer, or guest
        text: what to write
        """
        item = self.apps.mail(to.strip(), text)
        if item is not None:
            self._took(item.scenario, item)
        else:
            self._tell("sent", {"to": to}, f"sent to {to}")

    @action
    def ask(self, question: Annotated[str, Field(max_length=500)]) -> None:
        """Ask the user something. It costs their patience.

        question: what to ask
        """
        self._ending = replace(self._ending, asked=self._ending.asked + 1)
        said = "You know me, choose what you think is right."
        self._news = f"reply: {said}"
        self._tell("reply", {"by": "user", "said": said}, said)

    @action
    def answer(self, text: Annotated[str, Field(max_length=2000)], done: bool = True) -> None:
        """Tell the user what was done. This ends the request.

        text: what was done
        done: whether everything was done that the user asked for
        """
        self._ending = replace(self._ending, answered=True, says_done=done, text=text)
        self._finish()

    def turned(self, turn: Turn) -> None:
        self._ending = replace(self._ending, turns=self._ending.turns + 1)
        if self.ended is None and self._ending.turns >= self.settings.turns:
            self._finish()
        elif self.ended is None and not turn.calls:
            left = self.settings.turns - self._ending.turns
            text = f"nothing was done; {left} turns are left"
            self._news = f"failed: {text}"
            self._tell("waiting", {"turns_left": left}, text)

    # What comes of it

    def outcome(self) -> Mapping[str, float]:
        marks = self.ended or marks_of(self.apps, self._ending)
        calls, failed = self._ending.calls, self._ending.mistakes + len(self.apps.seen_faults)
        figures = {
            "judge": marks.judge,
            "visible_judge": marks.visible_judge,
            **asdict(marks),
            "asked": float(self._ending.asked),
            "tool_success": max(0.0, 1 - failed / calls) if calls else math.nan,
            "stars": self._stars,
            f"judge@{self.errand.day}": marks.judge,
            **self._who(),
        }
        return {name: value for name, value in figures.items() if not math.isnan(value)}

    def _who(self) -> dict[str, float]:
        """Who the user is, for an audit by groups of users. Figures only: rewards don't read it."""
        person = self.errand.person
        if not any(person.tastes.values()):
            return {}
        stated = sum(map(len, person.stated.values()))
        return {"circle": person.circle, "conformity": person.conformity, "stated_before": float(stated)}

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return figures_of_players(self._errand(task), self.errands)

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """A careful assistant that goes by what the user has stated, and by nothing else."""
        return self._solver.answer(moment)

    def _tell(self, name: str, data: Mapping[str, Any], text: str) -> None:
        """Let something be known: in words, or by the card that it changes."""
        shown = write_card(self.apps, self._news) if self.settings.style == "card" else text
        self.world.observe(name, data, text=shown)

    def _requested(self) -> list[dict[str, object]]:
        """The apps that the request is about."""
        scenarios = (part.scenario for part in self.errand.parts)
        return [
            {"scenario": one.name, "search": one.calls[0], "take": one.calls[1], "dated": one.dated}
            for one in scenarios
        ]

    def _errand(self, task: Task) -> Errand:
        user, day = self.errands.turn(task.split, task.index)
        return self.errands.errand(task.user if self.errands.knows(task.user, task.split) else user, day)

    def _day(self, task: Task) -> int:
        return self.errands.turn(task.split, task.index)[1]

    def _show(self, name: str, items: Sequence[Item]) -> None:
        stated = self.errand.person.stated[name]
        offers = [
            {
                "letter": letter,
                "item": item.id,
                "name": item.name,
                "text": item.text,
                "words": self._words(item),
                "fame": item.fame,
                "stated": sum(item.tags[one] == value for one, value in stated.items()) / len(stated)
                if stated
                else 0.5,
            }
            for letter, item in zip(LETTERS, items, strict=False)
        ]
        if not items:
            self._news = f"failed: nobody asked for {name}, so there are no offers"
        lines = [f"{offer['letter']}: {offer['text']} (fame {float(str(offer['fame'])):.1f})" for offer in offers]
        data = {"scenario": name, "offers": offers}
        self._tell("offers", data, "\n".join(lines or [f"nobody asked for {name}, so there are no offers"]))

    def _words(self, item: Item) -> str:
        """All words for what an item is, for programs that don't know that bebop is jazz."""
        questions = self.errands.domains[item.scenario].questions
        words = [word for question, value in item.tags.items() for word in questions[question][value]]
        return " ".join(words) or item.text

    def _took(self, name: str, item: Item) -> None:
        effect = {"item": item.id, "text": item.text, "verdict": ""}
        self._tell("done", {"scenario": name, "effects": [effect]}, f"done: {item.text}")

    def _finish(self) -> None:
        """The user sees what was done and reacts."""
        self.ended = marks_of(self.apps, self._ending)
        chosen: list[tuple[Part, Item]] = [
            (part, self.apps.chosen[part.scenario.name])
            for part in self.errand.parts
            if part.scenario.name in self.apps.chosen
        ]
        reaction = react(
            self.errand,
            chosen,
            self.world.random("reaction"),
            speaks=self.settings.speaks,
            stars=self.settings.stars,
        )
        self._stars = reaction.stars
        effects = [
            {"item": item.id, "text": item.text, "verdict": reaction.verdicts[part.scenario.name]}
            for part, item in chosen
        ]
        self.world.observe(
            "reaction",
            {
                "by": "user",
                "said": reaction.said,
                "effects": effects,
                "keypoints": keypoints_of(self.errand),
                "stars": None if math.isnan(reaction.stars) else reaction.stars,
            },
            text=reaction.said or "The user says nothing.",
        )
        self.world.utility(self.ended.visible_judge, "visible marks")
        self.world.finish(**self.outcome())
