"""Chat templates for models that have none, as base models do.

`plain` is the text alone: the answer continues what was said last, and what follows an answer begins a new line.
`chatml` marks who speaks. Anything else is a Jinja file, as in a model folder.

    text = template_text("plain", tokenizer)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError

__all__ = ["TEMPLATE_SETTING", "template_text"]

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
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"the chat template {name} can't be read: {getattr(error, 'strerror', None) or error}",
            fix=f"name a Jinja file, or {' or '.join(_BUILT_IN)}",
        ) from None
