"""Writes a version of a training as a folder of its own: an adapter, or a whole model.

A merged model has the logprobs of base and adapter. It is merged in fp32 and stored in the precision that the learner
computed in. An adapter that was trained on four bits is merged into what these stand for.

    version, whole = export_version(find_run(Path("runs"), "last"), Path("my-model"), merge=True)
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw.errors import UsageError
from agentfw.runs import newest_version

from .base import choose_device, computed_in
from .checkpoint import require_new, write_folder
from .locate import locate
from .plain_folder import copy_but_weights, write_plain

if TYPE_CHECKING:
    from agentfw.runs import RunFolder

__all__ = ["export_version"]


def export_version(run: RunFolder, target: Path, *, merge: bool) -> tuple[str, bool]:
    """Write the newest version of a training. Returns its name, and whether it is a whole model."""
    if not run.planned_updates:
        raise UsageError(f"{run.id} is no training, so it has nothing to export", fix="name a training")
    version = newest_version(run)
    settings = run.about["settings"]["learner"]
    adapter = (version / "adapter_config.json").is_file()
    if not version.is_dir() or not (adapter or (version / "config.json").is_file()):
        raise UsageError(f"{version} is no language model", fix="copy it: it is what the learner wrote")
    require_new(target)
    if target.is_dir():
        target.rmdir()  # empty
    if adapter and merge:
        write_folder(target, lambda unfinished: _merged(settings, version, unfinished))
    else:
        write_folder(target, lambda unfinished: shutil.copytree(version, unfinished, dirs_exist_ok=True))
    note = version / "agentfw.json"
    name = json.loads(note.read_text("utf-8"))["version"] if note.is_file() else version.name
    return str(name), merge or not adapter


def _merged(settings: dict[str, Any], adapter: Path, target: Path) -> None:
    import torch

    from .four_bits import four_bit_folder
    from .sampling_weights import Weights

    base, device, precision = locate(settings["model"]), choose_device(settings["device"]), settings["precision"]
    source = four_bit_folder(base, device) if precision == "nf4" else base
    dtype = torch.float32 if computed_in(precision, device) == "fp32" else torch.bfloat16
    model = Weights(source, "fp32", "cpu", "sdpa").of(adapter).to(dtype)
    copy_but_weights(source, target)
    write_plain(model, {name: weight.detach() for name, weight in model.named_parameters()}, target)
