"""What a model reads of a conversation, and what it wrote in its answer.

Converts a conversation to the format of chat models, for servers and chat templates. What a model wrote is sent back
verbatim. If the calls of an answer are in its text (because the model wrote them there, or because they were too broken
to be calls), the text is sent as it is, without separate calls.

    >>> from agentfw.episode import Call, Message
    >>> conversation([Message("assistant", "", (Call("open", {"n": 1}, "1.0"),))], (), native=False)
    [{'role': 'assistant', 'content': '<tool_call>{"name": "open", "arguments": {"n": 1}}</tool_call>'}]

`native` says whether the reader supports tools. If not, the tools are described in the system message, and calls are
parsed from the text. `results` says whether it reads the answer of a tool without a call before it, as most templates
do. A server doesn't, so the answer to a call in the text is a message of the user there.

A model with a short memory reads only the end of a conversation. Its prompts, for inference and for training, must be
made from the messages that `remembered` returns. A model folder declares it with `"agentfw_reads"` in its
tokenizer_config.json: `last_message` for the last message that it received, `last_answer` for the end of its own last
answer as well. That is its last call and what it wrote before it, back to the call before. In a session, what memories
recall is at the end of the system message. It is moved to the last message, where such models have learned to find it.

    >>> answer = "Noted.<tool_call>{}</tool_call>So B.<tool_call>{}</tool_call>"
    >>> said = [Message("user", "1"), Message("assistant", answer), Message("tool", "done"), Message("user", "2")]
    >>> [message.content for message in remembered(said, "last_message")]
    ['2']
    >>> [message.content for message in remembered(said, "last_answer")]
    ['So B.<tool_call>{}</tool_call>', '2']
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from agentfw import Message
from agentfw.request import Action, CallsInText
from agentfw.turns.parsing import parse_calls

__all__ = ["CallTokens", "ShortMemory", "conversation", "function", "pieces", "remembered", "short_memory_of", "tagged"]


def conversation(
    messages: Sequence[Message], actions: Sequence[Action], *, native: bool, results: bool = False
) -> list[dict[str, Any]]:
    """Messages as a chat template takes them; with calls as such if the model has a format for them (`native`)."""
    told: list[dict[str, Any]] = []
    written: set[str] = set()  # ids of calls that are in the text; answers can't refer to them
    for message in messages:
        if message.role == "tool" and message.answers in written:
            told.append({"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"})
        elif message.role == "tool":
            told.append({"role": "tool", "tool_call_id": message.answers, "content": message.content})
        elif not message.calls:
            told.append({"role": message.role, "content": message.content})
        elif native and not _spelled(message):
            said = [(call, json.dumps(dict(call.arguments), ensure_ascii=False)) for call in message.calls]
            calls = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
                for call, arguments in said
            ]
            told.append({"role": message.role, "content": message.content or None, "tool_calls": calls})
        else:
            written.update(call.id for call in message.calls if not results)
            text = message.content
            if not _spelled(message):
                tags = [tagged(call.name, dict(call.arguments)) for call in message.calls]
                text = "\n".join([text, *tags] if text else tags)
            told.append({"role": message.role, "content": text})
    if actions and not native:
        # In the format that most open models were trained with.
        functions = "\n".join(json.dumps(function(action), ensure_ascii=False) for action in actions)
        explained = (
            f"You can call these functions:\n<tools>\n{functions}\n</tools>\n"
            'For each call write <tool_call>{"name": ..., "arguments": {...}}</tool_call>.'
        )
        if told and told[0]["role"] == "system":
            told[0]["content"] += f"\n\n{explained}"
        else:
            told.insert(0, {"role": "system", "content": explained})
    joined: list[dict[str, Any]] = []
    for entry in told:  # many chat templates reject two messages of the user in a row
        if joined and entry["role"] == joined[-1]["role"] == "user":
            joined[-1]["content"] += f"\n{entry['content']}"
        else:
            joined.append(entry)
    return joined


def function(action: Action) -> dict[str, Any]:
    """An action in the JSON format for functions."""
    described = {"name": action.name, "description": action.description, "parameters": dict(action.parameters)}
    return {"type": "function", "function": described}


def tagged(name: object, arguments: object) -> str:
    """A call in the most common text format."""
    text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    # Equivalent JSON that can't contain the closing tag.
    inside = text.replace("</", "<\\/")
    return f"<tool_call>{inside}</tool_call>"


def _spelled(message: Message) -> bool:
    """Whether the text itself contains the calls."""
    found = parse_calls(message.content, {call.name for call in message.calls}).calls
    return [call.name for call in found] == [call.name for call in message.calls]


ShortMemory = Literal["last_message", "last_answer"]
_CALL_ENDS = "</tool_call>"
_RECALLED = "You remember:\n"  # how what was recalled begins, in all turns


def short_memory_of(folder: Path) -> ShortMemory | None:
    """What the model in a folder reads. None if it reads whole conversations."""
    path = folder / "tokenizer_config.json"
    named = json.loads(path.read_text("utf-8")).get("agentfw_reads") if path.is_file() else None
    return named if named in get_args(ShortMemory) else None


def remembered(messages: Sequence[Message], memory: ShortMemory) -> list[Message]:
    """The last user message, and before it the end of the model's own last answer if that is read too."""
    asked = max((place for place, each in enumerate(messages) if each.role == "user"), default=None)
    if asked is None:
        return []
    answers = [each for each in messages[:asked] if each.role == "assistant"] if memory == "last_answer" else []
    system = next((each.content for each in messages[:asked] if each.role == "system"), "")
    _, begins, items = system.rpartition(_RECALLED)
    recalled = f"{begins}{items}\n" if begins else ""
    last = replace(messages[asked], content=f"{recalled}{messages[asked].content}")
    if not answers:
        return [last]
    # The last call, which is in the text, and what stands before it, back to the call before.
    before, end, _ = answers[-1].content.rpartition(_CALL_ENDS)
    thought = before.rpartition(_CALL_ENDS)[2].lstrip()
    return [replace(answers[-1], content=f"{thought}{end}" if end else answers[-1].content, calls=()), last]


class CallTokens:
    """The tokens that begin a call, of a tokenizer that has such.

    A model that was trained with a token for `<tool_call>` begins its calls with it. The same characters in other
    tokens are text that it quotes. So that it has nothing else to quote, what users and tools write is never turned
    into such a token.

    >>> tokens = CallTokens("<tool_call>", {"<tool_call>": 7, "<": 1, "tool": 2})
    >>> tokens.in_text([7, 3], ["<tool_call>", "{}"]).places
    frozenset({0})
    >>> tokens.in_text([1, 2, 3], ["<", "tool", "_call>{}"]).places
    frozenset()
    >>> tokens.apart("Say <tool_call>.")
    ['Say <', 'tool_call>.']
    """

    def __init__(self, opening: str, vocabulary: Mapping[str, int], otherwise: CallsInText | None = None) -> None:
        """`opening` is what a call begins with. `otherwise` says where calls can be if no token begins with that."""
        tokens = {text: token for text, token in vocabulary.items() if opening and text.startswith(opening)}
        self._ids = frozenset(tokens.values())
        self._texts = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")
        self._otherwise = otherwise or CallsInText()

    def in_text(self, ids: Sequence[int], pieces: Sequence[str]) -> CallsInText:
        """Where the calls of an answer can be."""
        if not self._ids:
            return self._otherwise
        found, place = set[int](), 0
        for token, piece in zip(ids, pieces, strict=True):
            if token in self._ids:
                found.add(place + len(piece) - len(piece.lstrip()))
            place += len(piece)
        return CallsInText(places=frozenset(found))

    def apart(self, text: str) -> list[str]:
        """The text in parts that can be tokenised one by one, without such a token in any."""
        cuts = [0, *(found.start() + 1 for found in self._texts.finditer(text)), len(text)]
        return [text[start:end] for start, end in pairwise(cuts)]


_UNFINISHED = "\ufffd"  # replacement character that an incomplete character decodes to


def pieces(ids: Sequence[int], decode: Callable[[Sequence[int]], str], end_ids: Container[int]) -> tuple[str, ...]:
    """The text of each token of an answer. The pieces add up to the text.

    A character that is split over several tokens belongs to the token that completes it, so no piece contains a part
    of a character.

    >>> pieces([1, 2, 0], lambda ids: "".join({0: "", 1: "a", 2: "b"}[one] for one in ids), {0})
    ('a', 'b', '')
    """
    found: list[str] = []
    context = done = 0  # tokens are decoded together with the previous ones, because some add a space only then
    for index, token in enumerate(ids, start=1):
        before = decode(ids[context:done])
        text = decode(ids[context:index])
        last = index == len(ids)
        if (token in end_ids and last) or (text.endswith(_UNFINISHED) and not last and index - done < 4):
            found.append("")  # an incomplete character at the end is lost
        else:
            found.append(text[len(before) :])
            context, done = done, index
    return tuple(found)
