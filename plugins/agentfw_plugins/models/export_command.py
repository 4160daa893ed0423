"""`agentfw export`: a version of a training as a folder of its own, an adapter or a whole model, for other programs.

    agentfw export last adapter              # the adapter, in the PEFT format
    agentfw export last merged --merge       # base and adapter as one model, which needs nothing but transformers

A merged model has the logprobs of base and adapter. It is merged in fp32 and stored in the precision that the learner
computed in. An adapter that was trained on four bits is merged into what these stand for.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted
from agentfw.runs import RunFolder, find_training, newest_version

from ..command_options import json_option, runs_option, show
from .base import choose_device, computed_in
from .checkpoint import require_new, version_name, write_folder
from .export_rows import Library, export_rows
from .locate import copy_but_weights, locate, write_unquantized

if TYPE_CHECKING:
    from agentfw.runs import RunFolder


@click.command()
@click.argument("run")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--merge", is_flag=True, help="Merge the adapter into its base: a whole model.")
@click.option(
    "--to",
    "library",
    type=click.Choice(["trl", "verl"]),
    help="Write what RUN learned from, for this library: tokens, masks, logprobs and advantages, as Parquet files.",
)
@runs_option
@json_option
def export(run: str, folder: Path, merge: bool, library: Library | None, runs: Path, out: Out) -> None:
    """Write the newest version of the training RUN, or what it learned from, to the new FOLDER.

    It is an adapter in the PEFT format, or the whole model where all weights were trained. With --merge it is always a
    whole model, with tokenizer and chat template: for transformers, vLLM, or a converter to GGUF. `last` is the newest
    training that has a version.

    \b
      agentfw export last my-model --merge
      agentfw export last rows --to trl
    """
    found = find_training(runs, run)
    if library is not None:
        if merge:
            raise UsageError("--merge is about a version, and --to about episodes", fix="write each to its own folder")
        count = export_rows(found, folder, library)
        told = {"run": found.id, "rows": count, "folder": str(folder)}
        show(out, told, f"{counted(count, 'row')}   {folder}/")
        return
    version, whole = export_version(found, folder, merge=merge)
    told = {"run": found.id, "version": version, "folder": str(folder), "whole": whole}
    show(out, told, f"{version}   {folder}/")
    if whole and not out.json:
        out.note(f"serve it: agentfw serve --model {folder}")


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
    return version_name(version), merge or not adapter


def _merged(settings: dict[str, Any], adapter: Path, target: Path) -> None:
    import torch

    from .locate import four_bit_folder
    from .sampling_weights import Weights

    base, device, precision = locate(settings["model"]), choose_device(settings["device"]), settings["precision"]
    source = four_bit_folder(base, device) if precision == "nf4" else base
    dtype = torch.float32 if computed_in(precision, device) == "fp32" else torch.bfloat16
    model = Weights(source, "fp32", "cpu", "sdpa").of(adapter).to(dtype)
    copy_but_weights(source, target)
    write_unquantized(model, {name: weight.detach() for name, weight in model.named_parameters()}, target)
