"""The teacher of the model tiny-assistant: a program that reads the card, thinks aloud and makes one call.

It knows no more than the card and what was recalled. Each of its sources and habits is used by chance: the user's own
recalled wishes, those of several users, the profile, fame, a second try after a fault, a look at the mails, the
calendar, a mail to the guest. So a model that learns from it is unsure what matters, and never wrong for certain, and
a policy gradient has something to start from.

    >>> card = ["day 1: I need a table for this evening.", "dining: likes cheap places", "to do: dining"]
    >>> card += ["offers for dining:", "price: cheap B C, fair A", "fame: A 2, B 3, C 9", "names: A Mill, B Orchard"]
    >>> print(teach(chr(10).join(card), Habits(load_domains(""), Random(1), share=1.0)))
    think: cheap B C, best B C, fame C
    <table_book offer="C"/>
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from agentfw import Generation, Policy, Request

from .domains import Domains, Scenario, load_domains

__all__ = ["CardTeacher", "Habits", "teach"]

_RECALLED = re.compile(r"^- s\d+: For .*?, prefer ([\w-]+) (\w+) \(.*?(; wish of several users)?\)$", re.MULTILINE)
_DONE = re.compile(r"^done: (\w+) (.+?)(, in the calendar)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Habits:
    """What the teacher uses, by chance."""

    domains: Domains
    draw: Random
    share: float = 0.5
    """Probability that a source or a habit is used."""

    def uses(self) -> bool:
        return self.draw.random() < self.share


def teach(message: str, habits: Habits) -> str:
    """What the teacher writes when it is shown a message with a card."""
    offered = re.search(r"^offers for (\w+):$", message, re.MULTILINE)
    done = [(found[1], found[2], bool(found[3])) for found in _DONE.finditer(message)]
    left = _line(message, "to do").split(", ") if _line(message, "to do") else []
    failed, names = _line(message, "failed"), ", ".join(name for _, name, _ in done)
    social = "I'm not coming alone." in message
    if failed and not habits.uses():
        return _answer(names, False)
    if by_mail := re.search(r"a mail to (.+) works$", failed):
        return f'<mail_send to="{by_mail[1]}" text="Please book it for us."/>'
    if offered:
        return _choose(message, habits.domains[offered[1]], habits)
    if social and not done and not _line(message, "inbox") and habits.uses():
        return "<mail_search/>"
    if done:
        name, _, entered = done[-1]
        if habits.domains[name].dated and not entered and habits.uses():
            return f'<calendar_add scenario="{name}"/>'
    if left:
        return f"<{habits.domains[left[0]].calls[0]}/>"
    if social and not _line(message, "told") and habits.uses():
        return f'<mail_send to="guest" text="Booked: {names}"/>'
    return _answer(names, True)


class CardTeacher(Policy):
    """Plays as the teacher teaches."""

    is_program = True

    def __init__(self, share: float = 0.5) -> None:
        self._share, self._domains = share, load_domains("")

    async def generate(self, request: Request) -> Generation:
        draw = Random(f"{request.task.seed} {request.sampling.seed} {len(request.messages)}")
        asked = [message.content for message in request.messages if message.role == "user"]
        text = teach(asked[-1], Habits(self._domains, draw, self._share))
        return Generation(text=text, count=len(text.split()), version="teacher")


# What it thinks


def _choose(message: str, scenario: Scenario, habits: Habits) -> str:
    having = {
        found[1]: found[2].split()
        for question in scenario.questions
        for found in re.finditer(r"(\S+)((?: [A-Z])+)", _line(message, question))
    }
    fame = {found[1]: int(found[2]) for found in re.finditer(r"([A-Z]) (\d+)", _line(message, "fame"))}
    refused = [found[1] for found in re.finditer(rf"nothing (\S+) for me at {scenario.name}\.", message)]
    wishes = list(dict.fromkeys(_wishes(message, scenario, habits)))
    thought = [f"no {value} {_letters(having.get(value, []))}" for value in refused]
    thought += [f"{value} {_letters(having.get(value, []))}" for value in wishes]
    out = {letter for value in refused for letter in having.get(value, [])}
    possible = [letter for letter in fame if letter not in out] or list(fame)
    met = {letter: sum(letter in having.get(value, []) for value in wishes) for letter in possible}
    best = [letter for letter in possible if met[letter] == max(met.values())]
    thought.append(f"best {_letters(best)}")
    if habits.uses():
        chosen = max(best, key=lambda letter: fame[letter])
        thought.append(f"fame {chosen}")
    else:
        chosen = habits.draw.choice(best)
    return f'think: {", ".join(thought)}\n<{scenario.calls[1]} offer="{chosen}"/>'


def _wishes(message: str, scenario: Scenario, habits: Habits) -> Iterator[str]:
    """The values that the user would like, by the words that the catalogue has for them."""
    recalled = [found for found in _RECALLED.finditer(message) if found[2] == scenario.noun]
    for of_several in (False, True):
        if any(bool(found[3]) == of_several for found in recalled) and habits.uses():
            for found in recalled:
                if bool(found[3]) == of_several:
                    yield from _values(found[1], scenario)
    stated = re.search(rf"^{scenario.name}: likes (.+) \w+$", message, re.MULTILINE)
    if stated and habits.uses():
        for word in stated[1].split(", "):
            yield from _values(word, scenario)


def _values(word: str, scenario: Scenario) -> Iterator[str]:
    for answers in scenario.questions.values():
        yield from (words[0] for words in answers.values() if word in words)


def _letters(letters: Sequence[str]) -> str:
    return " ".join(letters) or "none"


def _answer(names: str, done: bool) -> str:
    text = f"Done: {names}" if names else "I couldn't do it."
    return f'<answer text="{text}" done="{str(done).lower()}"/>'


def _line(message: str, name: str) -> str:
    """The rest of the first line that begins with a name."""
    found = re.search(rf"^{name}: (.*)$", message, re.MULTILINE)
    return found[1] if found else ""
