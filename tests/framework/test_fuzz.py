"""A hundred thousand damaged model outputs: each is calls, or failures in words, or plain text, and nothing raises.

What is read out of them is carried out in an inbox: each call is accepted or refused, and whatever comes of it can be
written down as JSON. The same damage is done to the answers of an annotator and to files of dialogues.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.agent import Agent, Decision, Moment
from agentfw.engagement import Engagement
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import AgentfwError, InterventionRefused
from agentfw.parsing import parse_calls
from agentfw.policy import Policy
from agentfw.request import Generation, Request
from agentfw.seeds import Seeds
from agentfw.timeline import Timeline
from agentfw_papers.worlds.proactive.annotating import Annotator
from agentfw_papers.worlds.proactive.asking import Asker
from agentfw_papers.worlds.proactive.dataset import Example, generated, load_data, write_data
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_plugins.worlds.inbox.environment import Inbox
from agentfw_rewardmodels.timing import turn_row

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
    """One output, hurt in one to five ways."""
    return hurt(generator.choice(OUTPUTS), generator)[:20_000]


def hurt(text: str, generator: random.Random) -> str:
    for _ in range(generator.choice((1, 1, 2, 3, 5))):
        text = generator.choice(WAYS)(text, generator)
    return text


def _place(text: str, generator: random.Random) -> int:
    return generator.randint(0, len(text))


def _cut(text: str, generator: random.Random) -> str:
    return text[: _place(text, generator)]


def _without(text: str, generator: random.Random) -> str:
    first = _place(text, generator)
    return text[:first] + text[first + generator.randint(1, 12) :]


def _twice(text: str, generator: random.Random) -> str:
    first = _place(text, generator)
    last = first + generator.randint(1, 40)
    return text[:last] + text[first:last] * generator.choice((1, 1, 1, 30)) + text[last:]


def _inserted(text: str, generator: random.Random) -> str:
    place = _place(text, generator)
    return text[:place] + generator.choice(PIECES) + text[place:]


def _replaced(text: str, generator: random.Random) -> str:
    """A number, a word or a string becomes something else: the JSON stays whole more often than not."""
    words = text.split(" ")
    words[generator.randrange(len(words))] = generator.choice(PIECES)
    return " ".join(words)


def _revalued(text: str, generator: random.Random) -> str:
    digits = [place for place, character in enumerate(text) if character in "0123456789"]
    if not digits:
        return text
    place = generator.choice(digits)
    return (
        text[:place]
        + generator.choice(("-1", "1e400", "null", '"x"', "[]", "true", "99999999999", "NaN"))
        + text[place + 1 :]
    )


def _turned(text: str, generator: random.Random) -> str:
    place = _place(text, generator)
    return text[:place] + chr(generator.randrange(0x11000)) + text[place + 1 :]


def _spliced(text: str, generator: random.Random) -> str:
    other = generator.choice(OUTPUTS)
    return text[: _place(text, generator)] + other[_place(other, generator) :]


def _wrapped(text: str, generator: random.Random) -> str:
    before, after = generator.choice(
        [
            ("<tool_call>", "</tool_call>"),
            ("```json\n", "\n```"),
            ("[", "]"),
            ('{"function": ', "}"),
            ("<write>", "</write>"),
        ]
    )
    return before + text + after


WAYS: list[Callable[[str, random.Random], str]] = [
    _cut, _without, _twice, _inserted, _inserted, _replaced, _revalued, _revalued, _turned, _spliced, _wrapped,
]  # fmt: skip


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


@pytest.mark.slow
def test_a_hundred_thousand_damaged_outputs() -> None:
    generator = random.Random(7)
    fates: Counter[str] = Counter()
    for batch in range(100):
        desk = Desk(batch)
        for _ in range(1000):
            fates[check(damaged(generator), desk)] += 1
        desk.close()
    assert sum(fates.values()) == 100_000
    # All of it must be there, or the damage is of the wrong kind to find anything.
    for fate in ("accepted", "refused", "failure", "plain text", "accepted+failure"):
        assert fates[fate] > 500, fates


@pytest.fixture(scope="module")
def desk() -> Desk:
    return Desk(0)


@given(st.lists(st.one_of(st.text(), st.sampled_from(PIECES + OUTPUTS)), max_size=12))
def test_any_text_at_all(desk: Desk, parts: list[str]) -> None:
    check("".join(parts), desk)


# -- dialogues and their annotations -----------------------------------------------------------------------------------


class Damaging(Policy):
    """Writes the references of dialogues, three of ten damaged the first time that they are asked for."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.references = {one.id: one.annotation for one in examples}
        self.generator, self.damaged = random.Random(7), list[tuple[str, int]]()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        about = request.moment.observations[0].data
        [turn] = about["turns"]
        text = json.dumps(turn_row(self.references[about["dialogue"]].at(turn)))
        if not about["attempt"] and self.generator.random() < 0.3:
            self.damaged.append((about["dialogue"], turn))
            text = hurt(text, self.generator)
        return Generation(text, count=1)


@pytest.mark.slow
def test_of_three_damaged_answers_in_ten_none_stops_an_annotation(tmp_path: Path) -> None:
    domain = load_domain("home_loan")
    examples = generated(domain, "train", 1, 5)
    policy = Damaging(examples)

    found = asyncio.run(
        Annotator(domain, Asker(policy, name="damaging")).annotate([one.dialogue for one in examples], tmp_path)
    )

    # What couldn't be used was asked for again. Some damage leaves an answer that can be read, but says something else.
    assert found.failed == {}
    assert found.answers / 5 < len(policy.damaged)
    assert 10 <= found.retried <= len(policy.damaged)
    right = {
        (one.dialogue, turn): one.at(turn) for one in policy.references.values() for turn in range(1, one.length + 1)
    }
    wrong = {
        (one.dialogue, turn)
        for one in found.complete
        for turn in range(1, one.length + 1)
        if one.at(turn) != right[one.dialogue, turn]
    }
    assert wrong <= set(policy.damaged)


@pytest.mark.slow
def test_damaged_files_of_dialogues_are_read_or_refused_in_words(tmp_path: Path) -> None:
    domain = load_domain("home_loan")
    write_data(tmp_path, generated(domain, "train", 1, 2), domain.catalog, {})
    whole = {path: path.read_bytes() for path in tmp_path.iterdir()}
    generator = random.Random(7)
    refusals: list[AgentfwError] = []

    for path, content in whole.items():
        packed = path.suffix == ".gz"
        text = (gzip.decompress(content) if packed else content).decode()
        for _ in range(50):
            damaged_text = hurt(text, generator).encode("utf-8", "surrogatepass")
            # Of the archives, some are damaged themselves, and not what is in them.
            broken = content[: generator.randrange(len(content))] if packed and generator.random() < 0.2 else None
            path.write_bytes(broken if broken is not None else gzip.compress(damaged_text) if packed else damaged_text)
            try:
                load_data(tmp_path).check_catalog(domain.catalog)
            except AgentfwError as error:
                refusals.append(error)
        path.write_bytes(content)

    assert len(refusals) > 75
    assert all(one.message.strip() and one.fix for one in refusals)
    assert len(load_data(tmp_path).examples) == 2
