"""Puts the chunks of a streamed answer together to the reply that the server would have given whole.

So that an answer is read in one way, streamed or not: with the same ids, logprobs, calls and counts.

    reply = StreamedReply(lambda choice: print(choice))
    reply.begin()
    for line in lines:
        reply.take(line)            # b'data: {"choices": [{"delta": {"content": "He"}}]}'
    whole = reply.whole()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Malformed", "StreamedReply"]

Choice = Mapping[str, Any]


class Malformed(Exception):
    """An unusable answer, with the reason."""


class StreamedReply:
    """One answer that comes in chunks."""

    def __init__(
        self, hear: Callable[[Choice], object], read: Callable[[Choice], Choice] = lambda choice: choice
    ) -> None:
        """`hear` is called with the choice of each chunk that has one, as `read` makes it that of a chat completion."""
        self._hear, self._read = hear, read
        self.heard = False
        """Whether something was passed on, which can't be taken back."""
        self.begin()

    def begin(self) -> None:
        """Begin anew, with nothing received."""
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Parts] = {}
        self._ended = False

    def take(self, line: bytes) -> None:
        """Take the next line of the stream. Raises `Malformed` if it is not a chunk."""
        if not line.startswith(b"data:"):
            return  # comments, names of events and empty lines
        data = line[5:].strip()
        if data == b"[DONE]":
            self._ended = True
            return
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            raise Malformed("a chunk of the stream is not JSON") from None
        if not isinstance(chunk, dict):
            raise Malformed("a chunk of the stream is not a JSON object")
        if error := chunk.get("error"):
            words = error.get("message") if isinstance(error, dict) else error
            raise Malformed(f"the server broke off: {str(words)[:300]}")
        self._top |= {name: value for name, value in chunk.items() if name != "choices" and value is not None}
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._add(self._read(choice))

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its end."""
        return self._ended or any("finish_reason" in parts.choice for parts in self._choices.values())

    def whole(self) -> dict[str, Any]:
        """The reply. Raises `Malformed` if the stream ended before the answer did."""
        if not self.ended:
            raise Malformed("the stream ended before the answer")
        return self.so_far()

    def so_far(self) -> dict[str, Any]:
        """The reply as far as it came."""
        return {**self._top, "choices": [self._choices[index].whole() for index in sorted(self._choices)]}

    def _add(self, choice: Choice) -> None:
        index = choice.get("index")
        self._choices.setdefault(index if isinstance(index, int) else 0, _Parts()).add(choice)
        self.heard |= bool(choice.get("token_ids") or choice.get("delta"))
        self._hear(choice)


class _Parts:
    """What came of one choice."""

    def __init__(self) -> None:
        self.choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {"role": "assistant"}
        self._calls: dict[int, dict[str, Any]] = {}

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"content": "", **self._message}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        return {**self.choice, "message": message}

    def add(self, choice: Choice) -> None:
        for name, value in choice.items():
            if name == "delta" and isinstance(value, dict):
                self._add_delta(value)
            elif name == "logprobs" and isinstance(value, dict):
                logprobs = self.choice.setdefault("logprobs", {})
                for part, values in value.items():
                    if isinstance(values, list):
                        logprobs.setdefault(part, []).extend(values)
            elif name == "token_ids" and isinstance(value, list):
                self.choice.setdefault("token_ids", []).extend(value)
            elif name in ("finish_reason", "prompt_token_ids", "index") and value is not None:
                self.choice[name] = value

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(text := delta.get(name), str):
                self._message[name] = self._message.get(name, "") + text
        calls = delta.get("tool_calls")
        for part in calls if isinstance(calls, list) else ():
            if not isinstance(part, dict):
                continue
            # A server that gives no index gives each call whole.
            index = part.get("index")
            call = self._calls.setdefault(
                index if isinstance(index, int) else len(self._calls), {"id": "", "type": "function", "function": {}}
            )
            call["id"] = call["id"] or part.get("id") or ""
            function = part.get("function")
            for name, value in function.items() if isinstance(function, dict) else ():
                # Arguments come in pieces; some servers give them as an object.
                before = call["function"].get(name)
                both = isinstance(before, str) and isinstance(value, str)
                call["function"][name] = before + value if both else before if value is None else value
