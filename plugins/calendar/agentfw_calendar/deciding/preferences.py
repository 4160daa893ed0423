"""What a person prefers: what people do in general at first, and then what this one decided.

An event is seen by what matters to an assistant: do they lead it, who is in it and do they outrank them, can it be
moved, is it a note to themselves. And it is seen as itself: its words, its people, its series. The first kind has an
expectation that holds for most people; the second begins at nothing, and is what is learned when somebody always goes
to the choir. Weights are the most likely ones given all decisions, as in the policy `linear`.

    preferences = Preferences(known.rounds)
    preferences.choice(events)        # (place of the event to keep, how sure that is, why)

`PersonPolicy` is the same as a policy, so that a language model or a simple rule can take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentfw import Generation, Intervention, Policy, Request
from agentfw_plugins.worlds.calendar.choice_model import Floats, Prior, maximum
from agentfw_plugins.worlds.calendar.event_attributes import PRIVATE, in_words

GENERAL: Mapping[str, float] = {
    "by=superior": 0.6, "by=client": 0.5, "who=superior": 1.0, "who=client": 1.3, "who=report": 0.5, "who=peer": 0.2,
    "who=partner": 0.5, "who=vendor": -0.5, "who=family": 2.4, "who=friend": 0.3, "who=doctor": 2.6,
    "lead": 1.0, "note": -0.9, "moved": -0.5, "public": 1.6, "errand": -0.8,
    "size=2": 0.2, "size=8+": -0.1, "topic=steering": 0.4, "topic=people": 0.5, "topic=learning": -0.1,
    "topic=outreach": 0.5, "topic=admin": -0.9, "topic=social": -0.9, "topic=personal": 0.5, "topic=delivery": 0.0,
    "urgency=high": 1.5, "urgency=low": -0.9, "due=today": 1.2, "due=week": 0.5, "place=onsite": 0.3,
    "series=any": -0.5, "notice=today": -0.2, "hold=optional": -1.8, "hold=must": 1.4, "hold=fixed": 2.2,
}  # fmt: skip
"""What most people do: health and family before work, what can't be moved before what can."""
_SPREAD = 1.0
"""Variance of what holds in general, from person to person."""
_ITSELF = {"word": 0.7, "with": 0.8, "uid": 1.2, "title": 1.2}
"""Variance of what an event is by itself."""
_MOST = 300
_SAID = 0.25
"""Minimum weight of a reason."""
AS_BEFORE = "you kept it before"


class Choice(NamedTuple):
    """What to keep."""

    place: int
    sure: float
    """Probability that the person keeps it."""
    why: tuple[str, ...]
    """The strongest reasons, as names; behind the letter of another event what speaks against that."""


class Preferences:
    """One person's weights."""

    def __init__(self, decisions: Iterable[Mapping[str, Any]]) -> None:
        self._places = {name: place for place, name in enumerate(GENERAL)}
        self._mean = list(GENERAL.values())
        self._variance = [_SPREAD] * len(GENERAL)
        self._shown: list[list[frozenset[str]]] = []
        self._kept: list[int] = []
        self._weights: Floats | None = None
        for decision in list(decisions)[-_MOST:]:
            self.observe(decision["events"], decision["accepted"], decision.get("reasons", ()))

    def observe(self, events: Sequence[Mapping[str, str]], accepted: str, reasons: Sequence[str] = ()) -> None:
        """Add a decision, and what the person said of it."""
        seen = [features(event) for event in events]
        self._add(seen, [event["letter"] for event in events].index(accepted))
        for reason in reasons:
            if reason[1:] in GENERAL:
                self._add([frozenset([reason[1:]]), frozenset()], int(reason[0] == "-"))

    def choice(self, events: Sequence[Mapping[str, str]]) -> Choice:
        """What to keep of these events."""
        seen = [features(event) for event in events]
        weights = self._known(seen)
        values = [sum(weights.get(name, 0.0) for name in one) for one in seen]
        first, second = sorted(range(len(seen)), key=lambda place: (-values[place], place))[:2]
        powers = np.exp(np.array(values) - max(values))
        return Choice(
            first,
            float(powers[first] / powers.sum()),
            self._why(seen[first], seen[second], events[second]["letter"], weights),
        )

    def _why(
        self, kept: frozenset[str], other: frozenset[str], letter: str, weights: Mapping[str, float]
    ) -> tuple[str, ...]:
        speaks = {name: weights.get(name, 0.0) for name in kept - other}
        speaks |= {f"{letter}: {name}": -weights.get(name, 0.0) for name in other - kept}
        worth = sorted(speaks.items(), key=lambda pair: (-round(pair[1], 3), pair[0]))
        said = [name for name, weight in worth if weight > _SAID]
        general = [name for name in said if name.rpartition(": ")[2] in GENERAL]
        own = [name for name in said if name.startswith("title=")]
        return (*([AS_BEFORE] if own and own[0] in said[:2] else []), *map(_in_words, general))[:2]

    def _add(self, seen: list[frozenset[str]], kept: int) -> None:
        self._shown.append(seen)
        self._kept.append(kept)
        for name in {name for one in seen for name in one}:
            if name not in self._places:
                self._places[name] = len(self._places)
                self._mean.append(0.0)
                self._variance.append(_ITSELF[name.partition("=")[0]])
        self._weights = None

    def _known(self, seen: Sequence[frozenset[str]]) -> Mapping[str, float]:
        """The weights of these events' features. Those that were never seen weigh what they do in general."""
        if self._weights is None:
            prior = Prior(np.array(self._mean), np.array(self._variance), {})
            rows = [self._rows(one) for one in self._shown]
            self._weights = maximum(prior, rows, self._kept, prior.mean)[0] if rows else prior.mean
        names = {name for one in seen for name in one if name in self._places}
        return {name: float(self._weights[self._places[name]]) for name in names}

    def _rows(self, seen: Sequence[frozenset[str]]) -> Floats:
        rows = np.zeros((len(seen), len(self._places)))
        for row, one in zip(rows, seen, strict=True):
            row[[self._places[name] for name in one]] = 1.0
        return rows


def features(event: Mapping[str, str]) -> frozenset[str]:
    """What is known of an event: its tags that matter in general, and what it is by itself."""
    who = event["who"].split(",")
    names = [f"{tag}={event[tag]}" for tag in ("by", "urgency", "due", "place", "notice", "hold")]
    names += [f"who={relation}" for relation in who]
    # A dinner with the family is family, and no team lunch.
    names += [f"topic={event['topic']}"] if set(who).isdisjoint(PRIVATE) else []
    size = int(event["size"])
    names += ["size=2"] if size == 2 else ["size=8+"] if size > 7 else []
    names += ["series=any"] if event["series"] != "none" else []
    itself = [name for name in event.get("about", "").split("\t") if name]
    return frozenset(name for name in (*names, *itself) if name in GENERAL or name.partition("=")[0] in _ITSELF)


def _in_words(name: str) -> str:
    lettered, colon, feature = name.rpartition(": ")
    return f"{lettered}{colon}{in_words(feature)}" if "=" in feature else name


class PersonPolicy(Policy):
    """Proposes what the person most likely keeps."""

    is_program = True

    def __init__(self) -> None:
        self._preferences = Preferences(())
        self._events: Sequence[Mapping[str, str]] = ()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        for past in request.moment.of("past"):
            self._preferences = Preferences(past.data["rounds"])
        for feedback in request.moment.of("feedback"):
            self._preferences.observe(self._events, feedback.data["accepted"], feedback.data.get("reasons", ()))
        for conflict in request.moment.of("conflict"):
            self._events = conflict.data["events"]
            choice = self._preferences.choice(self._events)
            letters = [event["letter"] for event in self._events]
            kept = letters[choice.place]
            ranking = [kept, *(letter for letter in letters if letter != kept)]
            why = ", ".join(choice.why) or "hardly any difference"
            call = Intervention("decide", {"accept": kept, "ranking": ranking, "reason": why})
            return Generation(calls=(call,), count=1, version="person")
        return Generation(version="person")
