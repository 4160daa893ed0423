"""The tokenizer and chat format of the small included models, without transformers.

It produces exactly the tokens that `Chat` produces from the same folder. A test compares them.

    chat = SmallChat(folder)
    chat.prompt(messages), chat.pieces(sampled)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentfw import Message, Request
from agentfw.errors import SettingsError
from agentfw.request import CallsInText

from .conversation import CallTokens, pieces, remembered, short_memory_of

__all__ = ["END", "ROLES", "SmallChat"]

END = "<|end|>"
ROLES = {"user": "<|user|>", "assistant": "<|assistant|>"}
"""The control tokens. A message is its role, its text and the end token."""


class SmallChat:
    """The tokenizer of a model with a short memory."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        memory = short_memory_of(folder)
        if memory is None:
            raise SettingsError(
                f"the policy tiny can't use the model in {folder}: it has another chat template",
                fix="use --policy transformers for other models",
            )
        self._memory = memory
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        # A user who writes <|end|> writes plain text.
        self._tokenizer.encode_special_tokens = True
        self._control = {token: self._id(token, folder) for token in (END, *ROLES.values())}
        self.end_ids = frozenset({self._control[END]})
        self._calls = CallTokens("<tool_call>", self._tokenizer.get_vocab(), CallsInText(follows_anything=True))

    def prompt(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt for an answer."""
        ids: list[int] = []
        for message in remembered(messages, self._memory):
            own = message.role == "assistant"
            parts = [message.content] if own else self._calls.apart(message.content)
            said = [token for part in parts for token in self._tokens(part)]
            ids += [self._control[ROLES[message.role]], *said, self._control[END]]
        return (*ids, self._control[ROLES["assistant"]])

    def prompt_of(self, request: Request) -> tuple[int, ...]:
        """The prompt of a request."""
        return tuple(self._tokens(request.messages[-1].content)) if request.plain else self.prompt(request.messages)

    def answer(self, text: str) -> tuple[int, ...]:
        """The tokens that the model would have sampled for this text."""
        return (*self._tokens(text), self._control[END])

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The text of each token."""
        return pieces(ids, self._decoded, self.end_ids)

    def in_text(self, ids: Sequence[int], pieces: Sequence[str]) -> CallsInText:
        """Where the calls of an answer can be."""
        return self._calls.in_text(ids, pieces)

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def _id(self, token: str, folder: Path) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise SettingsError(f"the tokenizer in {folder} has no {token}", fix="restore the folder from a backup")
        return int(found)
