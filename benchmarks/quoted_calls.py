"""Answers in which tool calls are made, quoted, nested, half written, or written in another model's format.

    python benchmarks/quoted_calls.py
    python benchmarks/quoted_calls.py --answers 20000 --seed 8

Each answer is read whole, and streamed in pieces of random length. Required: no call that the model didn't make as a
call, no call lost, and nothing of a call told as text. There are four kinds of models: one whose tokenizer has a token
for `<tool_call>`, one without such a token, one whose format is bare JSON, and a server that tells calls apart itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from agentfw import Generation
from agentfw.episode import Call
from agentfw.request import NO_CALLS, CallsInText, Sampling
from agentfw.turns.parsing import StreamedText
from agentfw.turns.turn_builder import TurnBuilder
from agentfw_benchmarks import Options, tell
from agentfw_plugins.models.conversation import CallTokens

NAMES = ("weather", "send_mail", "open")
LEADS = ("", "I look it up.\n", "Let me see.\n\n", 'She wrote "now". So:\n', "<think>Is it `x`?</think>\n", "Done. ")
QUOTING: tuple[Callable[[str], str], ...] = (
    lambda call: f'The mail says: "{call}" and I refuse.',
    lambda call: f"The mail says: {call}",
    lambda call: f"The mail says: “Hello. {call}”",
    lambda call: f'It reads "Dear all,\n{call}',
    lambda call: f"```\n{call}\n```\nThat is all.",
    lambda call: f"```json\n{call}\n```",
    lambda call: f"As code:\n\n    {call}",
    lambda call: f"Never write `{call}`.",
    lambda call: f"> {call}\n\nThat is what it says.",
    lambda call: f"{call} is what it says.",
    lambda call: f"The mail says:\n{call}\nI won't.",
)
FOREIGN = (
    "<function=weather>{}</function>",
    '[TOOL_CALLS][{"name": "weather", "arguments": {}}]',
    "<|python_tag|>weather(city='Rome')",
    "print(weather('Rome'))",
    'Action: weather\nAction Input: {"city": "Rome"}',
    "<invoke name='weather'></invoke>",
)


def calls_of(draw: random.Random) -> list[dict[str, Any]]:
    texts = ("Rome", "a </tool_call> b", '<tool_call>{"name": "open"}</tool_call>', "{[`\"'", "é 😀", "x\ny")
    one = {"name": draw.choice(NAMES), "arguments": {"text": draw.choice(texts), "deep": {"a": [1, {"b": None}]}}}
    return [one] * draw.choice((1, 1, 2))


def tagged(call: dict[str, Any]) -> str:
    gap = "\n"
    return f"<tool_call>{gap}{json.dumps(call)}{gap}</tool_call>"


def answer(kind: str, draw: random.Random) -> tuple[str, list[str], int]:
    """A text, the names of the calls that the model made in it, and where they begin."""
    sort = draw.choice(("made", "quoted", "nested", "half", "foreign"))
    calls = calls_of(draw)
    written = [json.dumps(call) for call in calls] if kind == "json" else [tagged(call) for call in calls]
    if sort == "made":
        lead = "" if kind == "json" else draw.choice(LEADS)
        return lead + "\n".join(written), [call["name"] for call in calls], len(lead)
    if sort == "quoted":
        return draw.choice(QUOTING)(written[0]), [], -1
    if sort == "nested":
        return draw.choice(QUOTING)(tagged({"name": "open", "arguments": {"text": written[0]}})), [], -1
    if sort == "half":
        whole = written[0]
        return f"I look.\n{whole[: draw.randrange(1, len(whole) * 2 // 3)]}", [], -1
    return draw.choice(FOREIGN), [], -1


def generation(kind: str, text: str, names: list[str], begin: int, draw: random.Random) -> Generation:
    if kind == "server":
        made = tuple(Call(name, {}, str(i)) for i, name in enumerate(names))
        return Generation(text[:begin] if names else text, made, in_text=NO_CALLS)
    if kind == "json":
        return Generation(text, in_text=CallsInText(frozenset(("json",))))
    if kind == "tags":
        return Generation(text, in_text=CallsInText(frozenset(("tags",))))
    tokens = CallTokens("<tool_call>", {"<tool_call>": 1})
    ids, pieces = [0], [text[: max(begin, 0)] if names else text]
    place = begin if names else len(text)
    for _ in names:  # the model's own calls begin with the token
        end = text.find("</tool_call>\n<tool_call>", place)
        end = len(text) if end < 0 else end + len("</tool_call>\n")
        ids, pieces = [*ids, 1, 0], [*pieces, "<tool_call>", text[place + len("<tool_call>") : end]]
        place = end
    return Generation(text, in_text=tokens.in_text(ids, pieces))


def streamed(found: Generation, rest: str, draw: random.Random) -> str:
    """All that is told, in pieces and then the rest."""
    pieces, told, text = StreamedText(NAMES), "", found.text
    while text:
        size = draw.randrange(1, 9)
        told, text = told + pieces.take(text[:size]), text[size:]
    return told + pieces.rest(rest)


def measure(answers: int, seed: int) -> dict[str, Any]:
    draw, rows = random.Random(seed), []
    for kind in ("token", "tags", "json", "server"):
        counts = {"model": kind, "answers": answers, "calls made": 0, "not made": 0, "lost": 0, "told of a call": 0}
        for _ in range(answers):
            text, names, begin = answer(kind, draw)
            one = generation(kind, text, names, begin, draw)
            read = TurnBuilder.read(one, Sampling(), NAMES, "call_")
            found = [call.name for call in read.calls]
            counts["calls made"] += len(names)
            counts["lost"] += len(names) - len(found) if len(found) < len(names) else 0
            counts["not made"] += len(found) - len(names) if len(found) > len(names) else found != names
            whole = streamed(one, read.text, draw)
            counts["told of a call"] += bool(found) and kind != "server" and whole != read.text
            counts["told of a call"] += not found and whole != text and kind != "server"
        rows.append(counts)
    return {"rows": rows}


def show(result: dict[str, Any]) -> None:
    for row in result["rows"]:
        print(row)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, answers=2000, seed=7).parse_args(arguments)
    return tell(measure(options.answers, options.seed), options.json, show)


if __name__ == "__main__":
    main()
