"""An episode as a text: each message once, and after its messages each answer, with what it did.

    print(transcript(agentfw.load("last").episodes[0]))

A call is shown with its arguments, and an answer without the calls that are spelled in it. What a tool answered is a
message.
"""

from __future__ import annotations

import json

from ...episode import Call, Episode, Turn

__all__ = ["call_in_words", "transcript"]


def transcript(episode: Episode) -> str:
    """The whole episode."""
    told: set[int] = set()
    parts = []
    for turn in episode.turns:
        for index in turn.shown:
            message = episode.messages[index]
            if index not in told and message.role != "assistant":
                parts.append(f"{message.role}\n  " + message.content.replace("\n", "\n  "))
            told.add(index)
        parts.append(_answer(turn))
        parts += [f"! {failure}" for failure in turn.failures]
    return "\n\n".join(parts)


def call_in_words(call: Call) -> str:
    """A call with its arguments.

    >>> call_in_words(Call("decide", {"accept": "A", "ranking": ["A", "C"]}))
    'decide(accept="A", ranking=["A", "C"])'
    """
    arguments = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()]
    return f"{call.name}({', '.join(arguments)})"


def _answer(turn: Turn) -> str:
    said = turn.text if turn.said is None else turn.said
    lines = [*said.splitlines(), *map(call_in_words, turn.calls)] or ["(nothing)"]
    ending = " (interrupted)" if turn.finish == "interrupted" else ""
    return "\n".join([f"at {turn.ended:g}{ending}", *(f"> {line}" for line in lines)])
