"""Ten thousand damaged model outputs: each is calls, or failures in words, or plain text, and nothing raises.

What is read out of them is carried out in an inbox: each call is accepted or refused, and whatever comes of it can be
written down as JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

from agentfw.agent import Agent, Decision
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import InterventionRefused
from agentfw.request import Moment
from agentfw.seeds import Seeds
from agentfw.timeline import Timeline
from agentfw.turns.engagement import Engagement
from agentfw.turns.parsing import parse_calls
from agentfw_plugins.worlds.inbox.environment import Inbox

NAMES = ("write", "check_inbox", "open_message", "handle_email", "set_reminder")
OUTPUTS = [
    '{"name": "write", "arguments": {}}',
    '{"name": "handle_email", "arguments": {"message": 2}}',
    'Two mails are urgent.\n<tool_call>\n{"name": "open_message", "arguments": {"message": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "handle_email", "arguments": {"message": 0}}\n</tool_call>',
    'I\'ll set a reminder:\n```json\n{"name": "set_reminder", "arguments": {"message": 1, "after": 12.5}}\n```\nDone.',
    '[{"name": "check_inbox", "arguments": {}}, {"name": "write"}]',
    '{"tool_calls": [{"id": "call_9", "type": "function", "function": {"name": "set_reminder", '
    '"arguments": "{\\"message\\": 0, \\"after\\": 3}"}}]}',
    '<handle_email message="1"/>',
    "<think>Die Frist läuft ab — 締め切り ⏰</think> <open_message message='0'></open_message>",
    '{"name": "set_reminder", "parameters": {"message": "1", "after": 1e3, "note": "caf\\u00e9 \\ud83d\\ude00"}}',
    "Nothing to do: everything can wait until tomorrow.",
    '{"name": "handle_email", "arguments": {"message": {"number": [1, [2, [3]]]}}}',
    "```python\nfor mail in inbox:\n    handle_email(mail)\n```",
]
PIECES = [
    "{", "}", "[", "]", '"', "'", ",", ":", "\\", "<", ">", "/>", "</", "`", "```", "```json\n", "<tool_call>",
    "</tool_call>", '"name"', '"arguments"', '"function"', '"tool_calls"', "null", "true", "NaN", "Infinity",
    "-Infinity", "1e999", "-0", "0.1", "9" * 400, "9" * 5000, "1" * 30 + ".5", "\\ud800", "\\udfff", "\ud800", "\udc00",
    "\x00", "\u202e", "\ufeff", "😀", "é", "\n", "\r\n", "\t", " " * 50, "message", "after", "write", "handle_email",
    "<write>", "<write/>", "{" * 80, "[" * 1500, '{"a":' * 70, '{"name": "write", "arguments": ', "&amp;", "&#x110000;",
    "&#55296;", "%s", "{0}",
]  # fmt: skip


def damaged(generator: random.Random) -> str:
    """One output, in which one to five parts have become something else: cut, doubled, spliced, of another kind."""
    text = generator.choice(OUTPUTS)
    for _ in range(generator.choice((1, 1, 2, 3, 5))):
        first, last = sorted(generator.randint(0, len(text)) for _ in range(2))
        last = generator.choice(
            (first, first, first + generator.randint(1, 12), first + generator.randint(1, 12), last)
        )
        piece, character = generator.choice(PIECES), chr(generator.randrange(0x11000))
        doubled, other = text[first:last], generator.choice(OUTPUTS)
        text = text[:first] + generator.choice(("", piece, piece, character, doubled * 2, other)) + text[last:]
    return text[:20_000]


class Nobody(Agent):
    async def act(self, moment: Moment) -> Decision:
        return Decision()


class Desk:
    """An inbox in the middle of its day."""

    def __init__(self, seed: int) -> None:
        self.line = Timeline()
        self.episode = Episode(Task(0, seed))
        self.environment = Inbox()
        Engagement(self.environment, Nobody()).start(self.line, self.episode, Seeds(seed), ended=self.line.stop)
        asyncio.run(self.line.run(30))

    def do(self, call: Intervention) -> str:
        try:
            self.environment.intervene(call)
        except InterventionRefused as error:
            refusal = str(error)
        else:
            return "accepted"
        assert len(refusal) < 5_000
        return "refused"

    def close(self) -> None:
        """What was begun comes to its end, and all of it is a record."""
        asyncio.run(self.line.run())
        record = json.dumps(self.episode.to_record(), allow_nan=False).encode()
        assert Episode.from_record(json.loads(record)) == self.episode


def check(text: str, desk: Desk) -> str:
    """What became of one output."""
    parsed = parse_calls(text, NAMES)
    fates = set()
    for call in parsed.calls:
        assert call.name in NAMES
        json.dumps(dict(call.arguments), allow_nan=False, ensure_ascii=False).encode()
        fates.add(desk.do(call))
    for failure in parsed.failures:
        assert failure.strip()
        assert len(failure) < 500
    if parsed.failures:
        fates.add("failure")
    return "+".join(sorted(fates)) or "plain text"


def test_ten_thousand_damaged_outputs() -> None:
    generator = random.Random(7)
    fates: Counter[str] = Counter()
    for batch in range(10):
        desk = Desk(batch)
        for _ in range(1000):
            fates[check(damaged(generator), desk)] += 1
        desk.close()
    assert sum(fates.values()) == 10_000
    # All of it must be there, or the damage is of the wrong kind to find anything.
    for fate in ("accepted", "refused", "failure", "plain text", "accepted+failure"):
        assert fates[fate] > 50, fates
