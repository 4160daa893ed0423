"""The hook `redact`: keys, passwords and card numbers are struck out of what is recorded.

    agentfw serve --policy openai --hook redact

The model reads everything as it was said; the record has `[redacted: card]` in its place. A turn loses its tokens where
anything in its episode was redacted, because they spell the same text; it can't be learned from then. Memories keep
what they learn themselves, and trackers are told what was said: neither is a record. Nor is the code of plugins, and
a run has a copy of that.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import Any, Literal

from pydantic import Field, field_validator

from agentfw import Settings, hookimpl
from agentfw.hookspecs import Hook

_KEYS = (
    r"\b(?:sk|rk|pk)[-_](?:live[-_]|test[-_]|proj-|ant-)?[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, Stripe
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,})"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}|\bxox[abeprs]-[\w-]{10,}|\bagentfw-[\w-]{40,}"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"  # JSON web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
)
_PASSWORDS = (
    r"(?i:\b(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?token)\b[\"']?\s*(?:is\b|[:=])\s*[\"']?)"
    r"(?P<value>[^\s\"',;]{4,})|(?<=://)[^\s:/@]+:[^\s:/@]+(?=@)"
)
_CARDS = r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d.-])"
_DENSE = r"(?<![\w+/=.-])[A-Za-z0-9+/=_-]{24,}(?![\w+/=-])"

Kind = Literal["key", "password", "card", "entropy"]


class RedactSettings(Settings):
    """Settings of the hook `redact`."""

    kinds: tuple[Kind, ...] = Field(
        ("key", "password", "card", "entropy"),
        description="What is struck: known forms of keys, what follows words such as `password:`, card numbers with a "
        "valid check digit, and long random text",
    )
    entropy: float = Field(
        4.2, gt=0, description="Bits per character from which a text of 24 characters or more counts as random"
    )
    patterns: tuple[str, ...] = Field((), description="Further regular expressions whose matches are struck")

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} isn't a regular expression: {error}") from None
        return patterns


class Redact(Hook):
    """A wrapper, so that what other hooks add to a record is redacted, too."""

    def __init__(self, settings: RedactSettings) -> None:
        self._least = settings.entropy
        forms = {"key": _KEYS, "password": _PASSWORDS, "card": _CARDS, "entropy": _DENSE}
        self._forms: list[tuple[str, re.Pattern[str]]] = [
            (kind, re.compile(forms[kind])) for kind in forms if kind in settings.kinds
        ]
        self._forms += [("pattern", re.compile(pattern)) for pattern in settings.patterns]
        self._count = 0
        self._redacted: set[str] = set()
        """The episodes in which something was struck."""

    @hookimpl(wrapper=True, tryfirst=True)
    def agentfw_record(self, record: dict[str, Any]) -> Generator[None, dict[str, Any] | None, dict[str, Any]]:
        found = yield
        record, self._count = record if found is None else found, 0
        for row in record["messages"]:
            row[1] = self.struck(row[1])
            if len(row) > 2:
                row[2] = [[name, self.struck(arguments), call] for name, arguments, call in row[2]]
        for event in record["events"]:
            event[3] = {key: value if key in _NAMES else self.struck(value) for key, value in event[3].items()}
        for turn in record["turns"]:
            turn |= {key: self.struck(turn[key]) for key in ("text", "said", "failures")}
            turn["calls"] = [[name, self.struck(arguments), call] for name, arguments, call in turn["calls"]]
        record["profile"] = self.struck(record["profile"])
        episode = f"{record['task']['index']}-{record['task']['sample']}"
        if self._count:
            self._redacted.add(episode)
        if episode in self._redacted:
            for turn in record["turns"]:
                turn |= {"prompt_ids": (), "token_ids": (), "logprobs": (), "prompt_shared": 0}
        return record

    def struck(self, value: Any) -> Any:
        """A text, or the texts in a list or a table, with what is secret replaced."""
        if isinstance(value, str):
            for kind, form in self._forms:
                value = form.sub(partial(self._replacement, kind), value)
            return value
        if isinstance(value, dict):
            return {key: self.struck(inner) for key, inner in value.items()}
        return [self.struck(inner) for inner in value] if isinstance(value, list | tuple) else value

    def _replacement(self, kind: str, match: re.Match[str]) -> str:
        text = match[0]
        if (kind == "card" and not _is_card(text)) or (kind == "entropy" and not self._is_random(text)):
            return text
        self._count += 1
        secret = match.groupdict().get("value") or text
        return text.replace(secret, f"[redacted: {kind}]")

    def _is_random(self, text: str) -> bool:
        """Whether it has letters of both cases, digits, and much information. Names and paths have less."""
        if not (re.search(r"[a-z]", text) and re.search(r"[A-Z]", text) and re.search(r"\d", text)):
            return False
        shares = [count / len(text) for count in Counter(text).values()]
        return -sum(share * math.log2(share) for share in shares) >= self._least


_NAMES = ("id", "call", "tool", "name", "hook", "did")
"""Data of events that name other things of the record."""


def _is_card(text: str) -> bool:
    """Luhn's check digit."""
    digits = [int(sign) for sign in text if sign.isdigit()][::-1]
    return (
        len(set(digits)) > 1
        and sum(sum(divmod(digit * (1 + place % 2), 10)) for place, digit in enumerate(digits)) % 10 == 0
    )
