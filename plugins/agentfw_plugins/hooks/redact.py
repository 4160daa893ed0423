"""The hook `redact`: keys, passwords and card numbers are masked in what is recorded (`agentfw serve --mask`).

The model reads everything as it was said; the record has `[masked: card]` in its place, and an event of the kind `hook`
that says how many were masked. A turn loses its tokens where anything in its episode was masked, because they spell the
same text; it can't be learned from then. Trackers are told what was said. So is the code of plugins, and a run has a
copy of that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator
from typing import Any

from pydantic import Field, field_validator

from agentfw import Settings, hookimpl
from agentfw.hookspecs import Hook
from agentfw_memory.writing.secrets import KINDS, Kind, masked


class RedactSettings(Settings):
    """Settings of the hook `redact`."""

    kinds: tuple[Kind, ...] = Field(
        KINDS,
        description="What is masked: known forms of keys, what is called a password or a token, card numbers with a "
        "valid check digit, and long random text",
    )
    patterns: tuple[str, ...] = Field((), description="Further regular expressions whose matches are masked")

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
    """A wrapper, so that what other hooks add to a record is masked, too."""

    def __init__(self, settings: RedactSettings) -> None:
        self._kinds = settings.kinds
        self._patterns = [re.compile(pattern) for pattern in settings.patterns]
        self._counts = Counter[str]()
        self._masked = set[str]()  # the episodes in which something was masked

    @hookimpl(wrapper=True, tryfirst=True)
    def agentfw_record(self, record: dict[str, Any]) -> Generator[None, dict[str, Any] | None, dict[str, Any]]:
        found = yield
        record, self._counts = record if found is None else found, Counter()
        for row in record["messages"]:
            row[1] = self.struck(row[1])
            if len(row) > 2:
                row[2] = [[name, self.struck(arguments), call] for name, arguments, call in row[2]]
        for event in record["events"]:
            event[3] = {key: value if key in _NAMES else self.struck(value, key) for key, value in event[3].items()}
        for turn in record["turns"]:
            turn |= {key: self.struck(turn[key]) for key in ("text", "said", "failures")}
            turn["calls"] = [[name, self.struck(arguments), call] for name, arguments, call in turn["calls"]]
        record["profile"] = self.struck(record["profile"])
        episode = "{split} {index} {sample}".format_map(record["task"])
        if self._counts:
            self._masked.add(episode)
            at = record["events"][-1][0] if record["events"] else 0.0
            record["events"].append([at, "hook", "redact", {"did": "masked", **self._counts}])
        if episode in self._masked:
            for turn in record["turns"]:
                turn |= {"prompt_ids": (), "token_ids": (), "logprobs": (), "prompt_shared": 0}
        return record

    def struck(self, value: Any, name: str = "") -> Any:
        """A text, or the texts in a list or a table, with secrets masked, and so is the value of a field `password`."""
        if isinstance(value, str):
            named, whole = masked(f'{name}: "{value[:80]}"', self._kinds), "[masked: password]"
            is_named = named.text == f'{name}: "{whole}"'
            value, counts = (whole, named.counts) if is_named else masked(value, self._kinds)
            self._counts += counts
            for pattern in self._patterns:
                value, times = pattern.subn("[masked: pattern]", value)
                self._counts += Counter({"pattern": times})
            return value
        if isinstance(value, dict):
            return {key: self.struck(inner, key) for key, inner in value.items()}
        return [self.struck(inner) for inner in value] if isinstance(value, list | tuple) else value


_NAMES = ("id", "call", "tool", "name", "hook", "did")  # data of events that name other things of the record
