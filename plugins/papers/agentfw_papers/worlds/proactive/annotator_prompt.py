"""What an annotator is asked: the whole dialogue, and which actions matter at a turn of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agentfw import Message
from agentfw_papers.timing import STATUSES, Dialogue, Domain

_ROLE = (
    "You annotate a finished conversation between a customer and a professional. You know how it went on, and say for"
    " {unit} which actions of the catalog would have been worth preparing there, so that an assistant can learn to"
    " prepare them in time."
)
_RULES = (
    "Name only what matters at this turn. An action that was carried out before does not matter any more.",
    "Give an input a value only if it has been said up to this turn; otherwise leave it as null.",
    "The status is ready_to_trigger only on clear grounds: the wish is plain, and every required input is known.",
    "The status is pending while something is missing, and triggered at the turn at which the action happens.",
    "Nothing is a fine answer: use an empty list.",
    "Answer with JSON alone.",
)
_UNOBSERVED = (
    "Nobody recorded which actions happened. Call an action ready only if the words are clear evidence for it.",
    "Keep track of every required input and of the turn at which it becomes known.",
    "Weigh both: how plain the wish is, and how complete the information is.",
)
_SHAPE = {
    "name": "NAME OF AN ACTION",
    "status": " | ".join(STATUSES),
    "required": {"INPUT": "VALUE or null"},
    "optional": {"INPUT": "VALUE or null"},
    "maturity": "low | medium | high",
    "confidence": "low | medium | high",
}


def question(domain: Domain, dialogue: Dialogue, turns: Sequence[int], *, observed: bool) -> list[Message]:
    """Ask about one turn, or about several at once. `observed` shows the entries of triggered actions."""
    single = len(turns) == 1
    rules = (*_RULES, *(() if domain.observed else _UNOBSERVED))
    answer = {"opportunities": [_SHAPE]}
    shape = answer if single else {"turns": [{"turn": "NUMBER", **answer}]}
    system = "\n\n".join(
        [
            _ROLE.format(unit="one turn" if single else "each turn"),
            "\n".join(f"- {rule}" for rule in rules),
            f"Shape of the answer:\n{json.dumps(shape)}",
            f"Catalog:\n{domain.catalog.render('full')}",
        ]
    )
    lines = [
        f"{number}. {turn.speaker}: {turn.text}"
        for number, turn in enumerate(dialogue.turns, start=1)
        if observed or turn.speaker != "action"
    ]
    about = f"turn {turns[0]}" if single else f"turns {', '.join(map(str, turns))}"
    talk = "\n".join(lines)
    return [Message("system", system), Message("user", f"Conversation:\n{talk}\n\nAnnotate {about}.")]
