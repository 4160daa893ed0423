"""Checks from the files alone whether an adapter belongs to a model.

The check runs before anything is loaded, because some engines accept an adapter of another model without an error.

    check_adapter(Path("runs/.../adapter"), locate("path/to/model"))
    start = Start.at("runs/.../adapter", locate("path/to/model"))     # start.folder, start.version
"""

from __future__ import annotations

import json
import re
from math import prod
from pathlib import Path
from typing import NamedTuple, Self

from agentfw.errors import SettingsError

from .checkpoint import fingerprint, require_base

__all__ = ["Start", "check_adapter", "count_weights"]

_TENSOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_LONGEST = 100_000_000  # bytes; a longer header is invalid


class Start(NamedTuple):
    """What a policy answers with before anything is published: an adapter, or weights of a model's shape."""

    folder: Path
    version: str

    @classmethod
    def at(cls, adapter: str, model: Path) -> Self:
        """Find and check it. A version of a training has its name in agentfw.json, others are named by their folder."""
        folder = Path(adapter).expanduser().resolve()
        if not (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            if not (folder / "adapter_config.json").is_file():
                raise SettingsError(
                    f"{adapter} is no adapter: it has no adapter_config.json",
                    fix="use an adapter folder in the PEFT format, such as RUN/learner/00020/adapter",
                )
            check_adapter(folder, model)
            require_base(folder, fingerprint(model, 0), str(model))
        note = folder / "agentfw.json"
        named = json.loads(note.read_text("utf-8"))["version"] if note.is_file() else folder.name
        return cls(folder, str(named))


def check_adapter(adapter: Path, model: Path) -> None:
    """Raise a SettingsError if a LoRA adapter changes modules that the model lacks, or that have another size."""
    shapes: dict[str, list[int]] = {}
    for path in sorted(model.glob("*.safetensors")):
        shapes |= _shapes(path)
    for name, shape in _shapes(adapter / "adapter_model.safetensors").items():
        found = _TENSOR.fullmatch(name)
        if found is None or (found["module"] == "lm_head" and "lm_head.weight" not in shapes):
            continue  # a tied head has no weights of its own
        side = 1 if found["side"] == "A" else 0  # A has the module's input size, B its output size
        weight = shapes.get(f"{found['module']}.weight")
        if weight is None or weight[side] != shape[side]:
            has = f"is {weight}" if weight is not None else "isn't there"
            raise SettingsError(
                f"the adapter {adapter} doesn't fit the model {model}: "
                f"it has {shape} for {found['module']}, which {has}",
                fix="use the model that it was trained on",
            )


def count_weights(model: Path) -> int:
    """The number of weights in a model folder."""
    return sum(prod(shape) for path in model.glob("*.safetensors") for shape in _shapes(path).values())


def _shapes(path: Path) -> dict[str, list[int]]:
    """The shape of each tensor in a file, from its header."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST:
                raise ValueError("its header is too long")
            header = json.loads(file.read(length))
        return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(
            f"{path} can't be read as safetensors: {error}", fix="the file may be incomplete; copy or save it again"
        ) from error
