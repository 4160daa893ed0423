"""Episodes as text and as tables.

In a transcript, each message is shown once, and after its messages each answer with its calls. An answer is shown
without the calls that are spelled in it. What a tool answered is a message.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any, Literal

from ...episode import Call, Episode, Turn
from ...errors import UsageError
from ..records.figure_table import EPISODE_FIGURES
from ..records.folder import RunFolder


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
        said = turn.text if turn.said is None else turn.said
        lines = [*said.splitlines(), *map(call_in_words, turn.calls)] or ["(nothing)"]
        ending = " (interrupted)" if turn.finish == "interrupted" else ""
        parts.append("\n".join([f"at {turn.ended:g}{ending}", *(f"> {line}" for line in lines)]))
        parts += [f"! {failure}" for failure in turn.failures]
        parts += decisions(episode, turn)
    return "\n\n".join(parts)


def decisions(episode: Episode, turn: Turn) -> list[str]:
    """What hooks decided about a turn and its calls."""
    calls = {call.id for call in turn.calls}
    found = []
    for name, data in ((event.name, event.data) for event in episode.events if event.kind == "hook"):
        if data.get("turn") == turn.index or data.get("call") in calls:
            more = "".join(f": {data[key]}" for key in ("name", "text") if key in data)
            found.append(f"[{name} {data['did']}{more}]")
    return found


def call_in_words(call: Call) -> str:
    """A call with its arguments.

    >>> call_in_words(Call("decide", {"accept": "A", "ranking": ["A", "C"]}))
    'decide(accept="A", ranking=["A", "C"])'
    """
    arguments = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items()]
    return f"{call.name}({', '.join(arguments)})"


Rows = Literal["episodes", "turns"]


def frame(folder: RunFolder, rows: Rows = "episodes") -> Any:
    """A DataFrame of pandas, or of polars if only that is installed."""
    found = list(_turns(folder) if rows == "turns" else _episodes(folder))
    for name in ("pandas", "polars"):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        return library.DataFrame(found)
    raise UsageError("a table needs pandas or polars, and neither is installed", fix="pip install pandas")


def _episodes(folder: RunFolder) -> Iterator[dict[str, Any]]:
    for record in folder.metrics():
        yield {
            "episode": record["episode"],
            "task": record["task"],
            "user": record["user"],
            **{name: figure.of(record) for name, figure in EPISODE_FIGURES.items()},
            **record["outcome"],
            "finish": record["finish"],
        }


def _turns(folder: RunFolder) -> Iterator[dict[str, Any]]:
    for episode in folder.episodes():
        failed = episode.failed_calls
        for turn in episode.turns:
            yield {
                "episode": episode.id,
                "turn": turn.index,
                "round": turn.round,
                "started": turn.started,
                "ended": turn.ended,
                "text": turn.text,
                "calls": json.dumps([[call.name, dict(call.arguments)] for call in turn.calls], ensure_ascii=False),
                "failed_calls": sum(call.id in failed for call in turn.calls),
                "failures": len(turn.failures),
                "tokens": turn.count,
                "logprob": sum(turn.logprobs) / len(turn.logprobs) if turn.logprobs else None,
                "version": turn.version,
                "finish": turn.finish,
            }
