"""A GGUF file, as Ollama and LM Studio keep their models, as a model folder that any program can load.

Its weights are dequantised once, in fp32: what is sampled from, trained and exported is exactly what the file stands
for. The folder has four bytes for each weight.

    folder = gguf_folder(Path("model.gguf"))     # ~/.cache/agentfw/gguf/model-0123456789abcdef
"""

from __future__ import annotations

import io
import sys
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import Any

from agentfw.errors import AgentfwError, MissingExtraError, SettingsError

from .cached_folder import cached_folder
from .plain_folder import write_plain
from .room import require_room

__all__ = ["gguf_folder", "is_gguf"]

_SAMPLE = 1 << 20
_FORM = 2
"""Version of what is written. A folder of an earlier version is made again."""
_AGAIN = "copy or download it again: it may be incomplete"


def is_gguf(path: Path) -> bool:
    """Whether a file is one, whatever its name: Ollama's have none that says it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def gguf_folder(path: Path) -> Path:
    """The folder with what a file stands for. Made at the first call, then found again."""
    size = path.stat().st_size
    with path.open("rb") as file:
        sample = file.read(_SAMPLE)
        file.seek(max(0, size - _SAMPLE))
        identity = f"{_FORM} {size} {sample.hex()} {file.read().hex()}"
    return cached_folder("gguf", path.stem, identity, lambda unfinished: _write(path, unfinished))


def _write(path: Path, target: Path) -> None:
    try:
        import torch
        from gguf import GGUFReader
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a GGUF file", "train", module=error.name or "") from None
    template = _checked(path, GGUFReader)
    named = {"gguf_file": path.name, "local_files_only": True}
    # The bars of a minute's work are for a person.
    with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path.parent, **named)
            model: Any = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **named)
        except (ValueError, KeyError, NotImplementedError, TypeError, RuntimeError) as error:
            raise SettingsError(
                f"transformers can't load {path}: {str(error).partition(chr(10))[0]}",
                fix="use the model's folder in the Hugging Face format",
            ) from error
    if template:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(target)
    model.generation_config.save_pretrained(target)
    write_plain(model, {name: weight.detach() for name, weight in model.named_parameters()}, target)


def _checked(path: Path, read: Any) -> str:
    """Raise if the file is damaged, a part of a model, or too large. Returns its chat template, if it has one."""
    try:
        reader = read(path)
        fields = {name: reader.fields[name].contents() for name in _FIELDS if name in reader.fields}
        end = max((int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
        if not weights or end > path.stat().st_size:
            raise ValueError("it ends before its last weight")
    except AgentfwError:
        raise
    except Exception as error:  # whatever damaged bytes lead to
        raise SettingsError(f"{path} can't be read as GGUF: it is damaged or cut ({error})", fix=_AGAIN) from error
    if (parts := int(fields.get("split.count", 1))) > 1:
        raise SettingsError(
            f"{path} is one of {parts} parts of a model",
            fix="join them: llama-gguf-split --merge FIRST.gguf WHOLE.gguf",
        )
    require_room(path, 4 * weights, "in fp32, as which it is read once", "use a smaller model, or a larger machine")
    return str(fields.get("tokenizer.chat_template", ""))


_FIELDS = ("split.count", "tokenizer.chat_template")
