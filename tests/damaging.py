"""Damages texts as models and disks do. The test modules here, and those of the papers, import it by its name."""

from __future__ import annotations

import random
from collections.abc import Callable

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
