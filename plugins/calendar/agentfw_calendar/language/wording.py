"""Attributes of events in the words of the person whose calendar it is, and attributes that such words are about.

Policies and the hub use the benchmark's names, such as "outreach" and "called by oneself +0.2". A person reads what
they mean, in their language. What isn't one of these names, such as the reason of a language model, stays as it is.

    reason_in_words("learning, B: outreach", titles, texts)       # 'a training or talk; against "Demo": for customers'
    weights_in_words(["due today +0.8", "outreach -0.2"], texts)  # 'more weight for "due today"; less weight ...'
    reasons("der Kunde geht vor", events, "B")     # ["+who=client"], if a client comes to B, but not to A

The words of a person's reason name attributes; which events have them decides the direction. What the kept event has
and another hasn't speaks for it, and what it hasn't and another has speaks against that one. So "no client comes" and
"a client comes" need not be told apart, and what all events have, or none, says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agentfw_plugins.worlds.calendar.choice_model import FEATURES, matrix
from agentfw_plugins.worlds.calendar.event_attributes import NEUTRAL, in_words

from .texts import Texts
from .words import named

COUNTED = re.compile(r"(.+) ([+-]\d+\.\d)")
"""A strategy that was counted from decisions: what it is about, and its weight."""
AWAY = "you are away then"
"""The reason of a proposal to keep leave, travel or illness."""
_FEATURES = {in_words(feature): feature for feature in FEATURES}
_RULES = ("earliest", "most_attendees", "most_urgent", "most_senior", "regular_first", "first_shown")
"""The rules of the policy `rules`, which are the reasons that it gives."""
_REASONS = {rule.replace("_", " "): rule for rule in _RULES}
_REASONS |= {AWAY: "away", "hardly any difference": "hardly_any_difference", "you kept it before": "kept_it_before"}
_REASONS |= {"lead": "is_lead", "note": "is_note", "moved": "is_moved", "public": "is_public", "errand": "is_errand"}
_LETTERED = re.compile(r"([A-E]): (.*)", re.S)


def described(tags: Mapping[str, str], texts: Texts) -> str:
    """The notable attributes of an event in a few words."""
    names = []
    if tags["by"] != "self":
        names.append(f"by={tags['by']}")
    names += [f"who={who}" for who in tags["who"].split(",") if who not in ("nobody", "peer", tags["by"])]
    words = [texts.attributes[name] for name in names]
    if tags["size"] != "1":  # of what somebody noted for themselves, the file doesn't say who comes
        words.append(texts("people", count=int(tags["size"])))
    is_said = tags["topic"] == "personal" and not {"family", "doctor"}.isdisjoint(tags["who"].split(","))
    names = [f"topic={tags['topic']}"] if tags["topic"] != "delivery" and not is_said else []
    names += [f"{tag}={tags[tag]}" for tag in NEUTRAL if tags[tag] != NEUTRAL[tag]]
    if tags["place"] != "room":
        names.append(f"place={tags['place']}")
    return ", ".join([*words, *(texts.attributes[name] for name in names)])


def reason_in_words(reason: str, titles: Mapping[str, str], texts: Texts) -> str:
    """The reason of a proposal. Behind the letter of an event stands what speaks against it; its title is shown."""
    said = ""
    for part in reason.split(", "):
        lettered = _LETTERED.fullmatch(part)
        if lettered is not None and lettered[1] in titles:
            against = texts("against", title=titles[lettered[1]], reason=_in_words(lettered[2], texts))
            said += f"{said and texts('semicolon')}{against}"
        else:
            said += f"{said and ', '}{_in_words(part, texts)}"
    return said


def weights_in_words(strategies: Iterable[str], texts: Texts) -> str:
    """What counts more and less than it did, and strategies that a model wrote."""
    more, less, written = list[str](), list[str](), list[str]()
    for strategy in strategies:
        counted = COUNTED.fullmatch(strategy)
        if counted is None:
            written.append(strategy)
        else:
            (more if counted[2].startswith("+") else less).append(_in_words(counted[1], texts))
    said = [texts("more_weight", names=texts.quoted(more))] if more else []
    said += [texts("less_weight", names=texts.quoted(less))] if less else []
    return texts("semicolon").join([*said, *written])


def _in_words(name: str, texts: Texts) -> str:
    if name in _FEATURES:
        return texts.attributes[_FEATURES[name]]
    return texts(_REASONS[name]) if name in _REASONS else name


def reasons(why: str, events: Sequence[Mapping[str, str]], accepted: str) -> list[str]:
    """The features that a reason is about, each with `+` for what is valued and `-` for what is disliked."""
    words = named(why, "reasons")
    letters = [event["letter"] for event in events]
    found = []
    for name, has in zip(FEATURES, matrix(events).T, strict=True):
        if name in words:
            values = [bool(value) for value in has]
            if len(set(values)) == 2:
                found.append(f"{'+' if values[letters.index(accepted)] else '-'}{name}")
    return found
