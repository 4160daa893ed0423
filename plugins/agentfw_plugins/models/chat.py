"""The tokenizer and the chat template of a model.

Sampled tokens are kept as they are. The prompt of a later turn starts with exactly the tokens of the turn before,
prompt and answer, as long as the template leaves earlier turns unchanged. Only new text is tokenised.

    chat = Chat(folder)
    prompt = chat.prompt(messages, actions)
    chat.text(sampled), chat.pieces(sampled)      # the text of the tokens, together and one by one

Control tokens in a message's text (a user who writes `<|im_end|>`) are treated as plain text. So are tokens that begin
a call, in what users and tools write. For base models, which have no chat template, there are `plain` and `chatml`.
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfw import Generation, Message, Request
from agentfw.boundary.gate import needing
from agentfw.episode import Call
from agentfw.errors import RequestRefusedError, SettingsError
from agentfw.request import Action, CallsInText

from .checkpoint import OWN_CODE
from .conversation import CallTokens, conversation, function, pieces, remembered, short_memory_of

_SECONDS = 10.0
"""How long a template may take. It is a program of whoever made the model, and the sandbox has no end for its loops."""
_REMEMBERED = 10_000  # maximum number of prompts whose texts are known
_MARK = "\ue000"  # private use: inserted into control tokens that are meant as text
_SPELLED = "\ue000\ue001"  # inserted into tokens of calls that are meant as text
_TAG = "<tool_call>"
_TAGS, _JSON = CallsInText(frozenset(("tags",))), CallsInText(frozenset(("json",)))


class _Late(BaseException):
    """Ends a template. Not an Exception, which the template's own engine would catch."""


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Raise `_Late` in the block after this long, wherever its Python code is."""
    lock, thread, over = threading.Lock(), ctypes.c_ulong(threading.get_ident()), list[bool]()

    def end() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Late))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            over.append(True)
        for _ in range(3):  # what was raised at the last moment arrives here, and not in other code
            pass


class Chat:
    """The tokenizer and the chat template of one model folder, or another template in its place."""

    def __init__(self, folder: Path, template: str = "") -> None:
        with needing("a tokenizer in this process", "train"):
            from jinja2 import TemplateError
            from transformers import AutoTokenizer

        self.folder = folder
        self.end_ids: frozenset[int] = frozenset()  # ids of the tokens that end an answer
        self._texts: dict[int, int] = {}  # digests of the newest prompts' texts, by those of their tokens
        self._memory = short_memory_of(folder)
        self._template_errors = (TemplateError, TypeError)
        self._tokenizer = AutoTokenizer.from_pretrained(folder, **OWN_CODE)
        self._template = template
        if template:
            self._tokenizer.chat_template = template_text(template, self._tokenizer)
        if not self._tokenizer.chat_template:
            raise no_template(folder)
        self._control = sorted(
            {str(token) for token in self._tokenizer.added_tokens_decoder.values() if token.special}, key=len
        )[::-1]
        self._control_pattern = re.compile("|".join(map(re.escape, self._control)) or r"(?!)")
        self.takes_system = self._says(["agentfw_goal"], [Message("system", "agentfw_goal"), Message("user", "?")])
        self.takes_tools = self._takes_tools()
        self._takes_results = self.takes_tools and self._takes_tools(in_text=True)
        self._calls = self._call_tokens()
        if template and "agentfw_said" not in self._rendered([Message("user", "agentfw_said")], ()):
            raise SettingsError(
                f"the chat template {template} leaves out what the user says", fix=f"let {template} write all messages"
            )
        files = [folder / name for name in ("generation_config.json", "config.json")]
        configured = [json.loads(path.read_text("utf-8")).get("eos_token_id") for path in files if path.is_file()]
        first: int | list[int] = next((found for found in configured if found is not None), [])
        ends = {self._tokenizer.eos_token_id, *(first if isinstance(first, list) else [first])} - {None}
        self._end = self._template_end(min(ends, default=None))
        self.end_ids = frozenset({self._end, *ends})

    # -- to the model --------------------------------------------------------------------------------------------------

    def prompt(
        self, messages: Sequence[Message], actions: Sequence[Action] = (), before: Generation | None = None
    ) -> tuple[int, ...]:
        """The prompt for an answer.

        `before` is the generation of the last answer among the messages, if it answered all messages before it.
        """
        if self._memory:
            return self._tokens(self._rendered(remembered(messages, self._memory), ()))
        text = self._rendered(messages, actions)
        answered = max((i for i, message in enumerate(messages) if message.role == "assistant"), default=0)
        ids: tuple[int, ...] = ()
        if before is not None and before.prompt_ids and answered:
            shown = self._rendered(messages[:answered], actions)
            said = shown + self._marked(before.text)
            if text.startswith(said) and self._says_now(before.prompt_ids, shown):
                ended = bool(before.token_ids) and before.token_ids[-1] in self.end_ids
                kept = before.token_ids[:-1] if ended else before.token_ids  # the template adds the end token itself
                ids = (*before.prompt_ids, *kept, *self._tokens(text[len(said) :]))
        ids = ids or self._tokens(text)
        self._texts[hash(ids)] = hash(text)
        if len(self._texts) > _REMEMBERED:
            del self._texts[next(iter(self._texts))]
        return ids

    def _says_now(self, ids: Sequence[int], text: str) -> bool:
        """Whether an earlier prompt has this text. Tools may have come or gone since, or what was recalled."""
        if (known := self._texts.get(hash(tuple(ids)))) is not None:
            return known == hash(text)
        decode = self._tokenizer.backend_tokenizer.decode  # another process made it
        one, other = (decode(list(some), skip_special_tokens=False) for some in (ids, self._tokens(text)))
        return bool(one == other)

    def prompt_of(self, request: Request) -> tuple[int, ...]:
        if request.plain:
            ids = list(self._tokenizer(request.messages[-1].content)["input_ids"])
            return tuple(ids[:-1] if ids and ids[-1] in self.end_ids else ids)  # some tokenizers end every text
        return self.prompt(request.messages, request.actions, request.before)

    def answer(self, text: str) -> tuple[int, ...]:
        """The tokens that the model would have sampled for this text, for demonstrations without tokens."""
        return (*self._tokens(self._marked(text)), self._end)

    def tokenizer_json(self) -> str:
        """The tokenizer as a file tokenizer.json has it, with all added tokens."""
        backend = type(self._tokenizer.backend_tokenizer).from_str(self._tokenizer.backend_tokenizer.to_str())
        backend.no_padding()
        backend.no_truncation()
        return str(backend.to_str())

    # -- from the model ------------------------------------------------------------------------------------------------

    def text(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The text of each token. A character that is split over several belongs to the one that completes it."""
        decode = self._tokenizer.backend_tokenizer.decode
        return pieces(ids, lambda some: decode(list(some), skip_special_tokens=True), self.end_ids)

    def in_text(self, ids: Sequence[int], pieces: Sequence[str]) -> CallsInText:
        return self._calls.in_text(ids, pieces)

    # -- the template --------------------------------------------------------------------------------------------------

    def _rendered(self, messages: Sequence[Message], actions: Sequence[Action], *, answering: bool = True) -> str:
        told = conversation(messages, actions, native=self.takes_tools, results=self._takes_results)
        if not self.takes_system and told and told[0]["role"] == "system":
            goal, *told = told
            if told and told[0]["role"] == "user":
                told[0] = {"role": "user", "content": f"{goal['content']}\n\n{told[0]['content']}"}
            else:
                told.insert(0, {"role": "user", "content": goal["content"]})
        for message in told:
            if message["role"] in ("user", "tool"):  # they can begin no call
                message["content"] = _SPELLED.join(self._calls.apart(message["content"]))
        tools = [function(action) for action in actions] if self.takes_tools else []
        try:
            return self._filled(self._marked(told), self._marked(tools), answering)
        except self._template_errors as error:
            whose = self._template or f"of {self.folder}"
            if self.end_ids:  # it has taken others
                wrong = f"the chat template {whose} refuses this conversation: {error}"
                raise RequestRefusedError(wrong, fix="let user and assistant take turns, a user first") from error
            wrong = f"the chat template {whose} can't be rendered: {error}"
            raise SettingsError(wrong, fix=f"fix {self._template or 'chat_template.jinja there'}") from error

    def _filled(self, told: list[dict[str, Any]], tools: list[dict[str, Any]], answering: bool) -> str:
        for message in told:
            message["content"] = message["content"] or ""
            for call in message.get("tool_calls", ()):
                # Servers expect arguments as a JSON string, templates as values.
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        try:
            with _ended_after(_SECONDS):
                return str(
                    self._tokenizer.apply_chat_template(
                        told, tools=tools or None, tokenize=False, add_generation_prompt=answering
                    )
                )
        except _Late:
            wrong = f"the chat template {self._template or f'of {self.folder}'} takes more than {_SECONDS:g} s"
            raise SettingsError(wrong, fix="use another template: --set policy.template=chatml") from None

    def _says(self, words: Sequence[str], messages: Sequence[Message], actions: Sequence[Action] = ()) -> bool:
        """Whether the template accepts these messages and actions, and includes all of their text."""
        told = conversation(messages, actions, native=True)
        try:
            text = self._filled(told, [function(action) for action in actions], True)
        except self._template_errors:
            return False
        return all(word in text for word in words)

    def _takes_tools(self, *, in_text: bool = False) -> bool:
        """Whether the template has tools, calls and their answers, also where the call is in the text of a message."""
        call = Call("agentfw_call", {"agentfw_key": 1}, "agentfw-1")
        messages = [
            Message("user", "?"),
            Message("assistant", f"{call.name} agentfw_key" if in_text else "", () if in_text else (call,)),
            Message("tool", "agentfw_answer", answers=call.id),
            Message("user", "?"),
        ]
        action = Action("agentfw_tool", "", {"type": "object", "properties": {}})
        return self._says([action.name, call.name, "agentfw_key", "agentfw_answer"], messages, [action])

    def _call_tokens(self) -> CallTokens:
        """How calls begin: as the template has them, or where it has none, as the model is told."""
        vocabulary = self._tokenizer.get_vocab()
        if self._memory or not self.takes_tools:
            return CallTokens(_TAG, vocabulary, CallsInText(follows_anything=True) if self._memory else _TAGS)
        name, asked = "agentfw_call", [Message("user", "?")]
        called = [*asked, Message("assistant", "", (Call(name, {"agentfw_key": 1}, "agentfw-1"),))]
        action = Action(name, "", {"type": "object", "properties": {}})
        before, text = (
            self._filled(conversation(each, [action], native=True), [function(action)], each is asked)
            for each in (asked, called)
        )
        same = next(end for end in range(len(before), -1, -1) if text.startswith(before[:end]))
        opening = text[same : text.rindex(name)].partition("{")[0].strip().rstrip("[")
        added = [str(token) for token in self._tokenizer.added_tokens_decoder.values()]
        token = max((each for each in added if each in opening), key=opening.rfind, default="")
        if token or opening == _TAG:
            return CallTokens(token or _TAG, vocabulary, _TAGS)
        return CallTokens("", vocabulary, CallsInText() if opening else _JSON)

    def _template_end(self, otherwise: int | None) -> int:
        """The control token that the template puts after an answer.

        A template of the user's may have another token there, such as the end of a line. Base models copy that one.
        """
        word = "agentfw_answer"
        text = self._rendered([Message("user", "?"), Message("assistant", word)], (), answering=False)
        ended = text.rfind(word) + len(word)
        found = self._control_pattern.search(text, ended)
        end = self._tokenizer.convert_tokens_to_ids(found.group()) if found else otherwise
        if self._template and not found and len(ids := self._ids_of_text(text[ended:])) == 1:
            (end,) = ids
        if end is None:
            raise SettingsError(
                f"nothing in the model folder {self.folder} says which token ends an answer",
                fix="let the chat template end answers with a special token, or set eos_token_id in config.json",
            )
        return end

    # -- tokens --------------------------------------------------------------------------------------------------------

    def _marked(self, value: Any) -> Any:
        """The value with a mark in each control token in its texts."""
        if isinstance(value, str):
            return self._control_pattern.sub(lambda found: found[0][:1] + _MARK + found[0][1:], value)
        if isinstance(value, Mapping):
            return {self._marked(key): self._marked(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._marked(inner) for inner in value]
        return value

    def _tokens(self, text: str) -> tuple[int, ...]:
        if _MARK not in text and _SPELLED not in text:
            return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])
        ids: list[int] = []
        for place, part in enumerate(re.split(f"({self._control_pattern.pattern})", text)):
            ids += [self._tokenizer.convert_tokens_to_ids(part)] if place % 2 else self._ids_of_text(part)
        return tuple(ids)

    def _ids_of_text(self, text: str) -> list[int]:
        """The tokens of a text without control tokens."""
        for token in self._control:
            text = text.replace(token[:1] + _MARK + token[1:], token)
        backend = self._tokenizer.backend_tokenizer
        backend.encode_special_tokens = True
        try:
            parts = text.split(_SPELLED)
            return [token for part in parts for token in backend.encode(part, add_special_tokens=False).ids]
        finally:
            backend.encode_special_tokens = False


def no_template(model: Path) -> SettingsError:
    return SettingsError(
        f"the model {model} has no chat template",
        fix="set template to plain, chatml or a Jinja file, such as policy.template=plain; or use the instruct model",
    )


TEMPLATE_SETTING = (
    "Chat template: plain (the text alone), chatml, or a Jinja file. Default: the model's own; a base model has none."
)
"""How the setting is described, wherever it is one."""

_BUILT_IN = {
    "plain": (
        "{%- for message in messages -%}"
        "{{ message.content }}"
        "{%- if loop.nextitem is defined and loop.nextitem.role != 'assistant' %}{{ '\\n' }}{% endif -%}"
        "{%- endfor -%}"
    ),
    "chatml": (
        "{%- for message in messages -%}"
        "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"
    ),
}


def template_text(name: str, tokenizer: Any) -> str:
    """The text of a template by its name or file. Where the tokenizer begins texts with a token, so do the built-in."""
    if name in _BUILT_IN:
        first = tokenizer("")["input_ids"][:1]
        begins = bool(first) and first[0] == tokenizer.bos_token_id
        return (f"{{{{ {json.dumps(tokenizer.bos_token)} }}}}" if begins else "") + _BUILT_IN[name]
    path = Path(name).expanduser()
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        wrong = f"the chat template {name} can't be read: {getattr(error, 'strerror', None) or error}"
        raise SettingsError(wrong, fix=f"name a Jinja file, or {' or '.join(_BUILT_IN)}") from None
