"""The policy `assistant-teacher`: a program that reads the card, thinks aloud in one line, and makes one call.

    agentfw run assistant --policy assistant-teacher --set environment.style=card
    agentfw train assistant --teacher assistant-teacher --set teacher.share=0.5 --set environment.style=card \\
        --optimizer imitation --learner sft --set learner.model=path/to/model \\
        --policy transformers --set policy.model=path/to/model

It thinks in small steps: each wish with its source and the offers that meet it, the offers that are left, those that
meet at least one wish, at least two and so on, and the most famous of the last ones.

It knows no more than the message that it answers, so a language model can learn from its answers. With a `share` below
1 it uses each of its sources and habits by chance: the user's own recalled wishes, those of several users, the profile,
fame, a second try after a fault, a look at the mails, the calendar, a mail to the guest. A model that learns from it
then is unsure what matters, and never wrong for certain, and a policy gradient has something to start from.

    >>> card = ["day 1: I need a table for this evening.", "dining: likes cheap places", "to do: dining"]
    >>> card += ["offers for dining:", "price: cheap=BC, fair=A", "fame: A2, B3, C9", "names: A Mill, B Orchard"]
    >>> print(teach(chr(10).join(card), Habits(load_domains(""), Random(1), share=1.0)))
    think: stated cheap BC, left ABC, 1 BC, 2 none, fame C
    <table_book offer="C"/>
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from random import Random

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.errors import SettingsError

from .card import NONE
from .catalogue import Domains, Scenario, load_domains

_RECALLED = re.compile(r"^- s\d+: For .*?, prefer (.+?) \(.*?(; wish of several users)?\)$", re.MULTILINE)
_DONE = re.compile(r"^done: (\S+) .+?(, in the calendar)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Habits:
    """What the teacher uses, by chance."""

    domains: Domains
    draw: Random
    share: float
    """Probability that a source or a habit is used."""

    def uses(self) -> bool:
        return self.draw.random() < self.share


def teach(message: str, habits: Habits) -> str:
    """What the teacher writes when it is shown a message with a card."""
    offered = re.search(r"^offers for (.+):$", message, re.MULTILINE)
    done = [(found[1], bool(found[2])) for found in _DONE.finditer(message)]
    left = _line(message, "to do").split(", ") if _line(message, "to do") else []
    failed = _line(message, "failed")
    social = "I'm not coming alone." in message
    if failed and not habits.uses():
        return _answer(False)
    if by_mail := re.search(r"a mail to (.+) works$", failed):
        return f'<mail_send to="{escape(by_mail[1])}" text="Please book it for us."/>'
    if offered:
        return _choose(message, habits.domains[offered[1]], habits)
    if social and not done and not _line(message, "inbox") and habits.uses():
        return "<mail_search/>"
    if done:
        name, entered = done[-1]
        if habits.domains[name].dated and not entered and habits.uses():
            return f'<calendar_add scenario="{name}"/>'
    if left:
        return f"<{habits.domains[left[0]].calls[0]}/>"
    if social and not _line(message, "told") and habits.uses():
        return '<mail_send to="guest" text="It is booked."/>'
    return _answer(True)


class CardTeacherSettings(Settings):
    share: float = Field(1.0, ge=0, le=1, description="Probability that it uses a source or a habit.")
    domains: str = Field("", description="YAML file of scenarios, as for the environment. Default: those that ship.")


class CardTeacher(Policy):
    """Answers as a language model would, in text."""

    is_program = True

    def __init__(self, settings: CardTeacherSettings | None = None) -> None:
        self.settings = settings or CardTeacherSettings()
        self._domains = load_domains(self.settings.domains)

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        card = next((message.content for message in reversed(request.messages) if message.role == "user"), "")
        if not re.search(r"^(to do|done): ", card, re.MULTILINE):
            if request.moment.of("request"):
                raise SettingsError(
                    "the policy assistant-teacher reads cards only", fix="add --set environment.style=card"
                )
            return Generation(version="teacher")  # in another world it has nothing to say
        named = re.findall(r"^(?:to do: |offers for )(.+?)[,:\n]", f"{card}\n", re.MULTILINE)
        if strange := [name for name in named if name not in self._domains]:
            raise SettingsError(
                f"the policy assistant-teacher doesn't know the scenario {strange[0]}",
                fix="set policy.domains to the same file as environment.domains",
            )
        draw = Random(f"{request.task} {request.sampling.seed} {len(request.messages)}")
        text = teach(card, Habits(self._domains, draw, self.settings.share))
        return Generation(text=text, count=len(text.split()), version="teacher")


# What it thinks


def _choose(message: str, scenario: Scenario, habits: Habits) -> str:
    table = (part for question in scenario.questions for part in _line(message, question).split(", "))
    having = {
        found[1]: "" if found[2] == NONE else found[2]
        for part in table
        if (found := re.fullmatch(rf"(.+)=([A-Z]+|{NONE})", part))
    }
    fame = {found[1]: int(found[2]) for found in re.finditer(r"([A-Z])(\d+)", _line(message, "fame"))}
    refused = [found[1] for found in re.finditer(rf"nothing (.+) for me at {re.escape(scenario.name)}\.", message)]
    thought = [f"no {value} {having.get(value) or NONE}" for value in refused]
    wishes = list[str]()
    for source, values in _wishes(message, scenario, habits):
        new = [value for value in dict.fromkeys(values) if value not in wishes]
        thought += [f"{source} {value} {having.get(value) or NONE}" for value in new]
        wishes += new
    out = {letter for value in refused for letter in having.get(value, "")}
    best = [letter for letter in fame if letter not in out] or list(fame)
    thought.append(f"left {''.join(best)}")
    met = {letter: sum(letter in having.get(value, "") for value in wishes) for letter in best}
    for count in range(1, len(wishes) + 2):
        as_many = [letter for letter in best if met[letter] >= count]
        thought.append(f"{count} {''.join(as_many) or NONE}")
        if not as_many:
            break
        best = as_many
    if habits.uses():
        chosen = max(best, key=lambda letter: fame[letter])
        thought.append(f"fame {chosen}")
    else:
        chosen = habits.draw.choice(best)
    return f'think: {", ".join(thought)}\n<{scenario.calls[1]} offer="{chosen}"/>'


def _wishes(message: str, scenario: Scenario, habits: Habits) -> Iterator[tuple[str, list[str]]]:
    """What the user would like: each source that is used, with values in the words of the catalogue."""
    end = f" {scenario.noun}"
    recalled = [
        (found[1].removesuffix(end), bool(found[2])) for found in _RECALLED.finditer(message) if found[1].endswith(end)
    ]
    stated = _line(message, scenario.name).removeprefix("likes ").removesuffix(end)
    for source, words in (
        ("own", [word for word, shared in recalled if not shared]),
        ("several", [word for word, shared in recalled if shared]),
        ("stated", stated.split(", ") if stated else []),
    ):
        if words and habits.uses():
            yield source, [value for word in words for value in _values(word, scenario)]


def _values(word: str, scenario: Scenario) -> Iterator[str]:
    for answers in scenario.questions.values():
        yield from (words[0] for words in answers.values() if word in words)


def _answer(done: bool) -> str:
    text = "Done." if done else "I couldn't do it."
    return f'<answer text="{text}" done="{str(done).lower()}"/>'


def _line(message: str, name: str) -> str:
    """The rest of the first line that begins with a name."""
    found = re.search(rf"^{re.escape(name)}: (.*)$", message, re.MULTILINE)
    return found[1] if found else ""
