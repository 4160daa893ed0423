"""`agentfw export`: what a training made, for other programs.

    agentfw export last adapter              # the adapter, in the PEFT format
    agentfw export last merged --merge       # base and adapter as one model, which needs nothing but transformers

This module is imported for `agentfw export --help`, so the command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.printing.out import Out

from ..command_options import json_option

__all__ = ["export"]


@click.command()
@click.argument("run")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--merge", is_flag=True, help="Merge the adapter into its base: a whole model.")
@click.option("--runs", type=click.Path(path_type=Path), help="Directory of runs. Default: ./runs.")
@json_option
def export(run: str, folder: Path, merge: bool, runs: Path | None, out: Out) -> None:
    """Write the newest version of the training RUN to the new FOLDER.

    It is an adapter in the PEFT format, or the whole model where all weights were trained. With --merge it is always a
    whole model, with tokenizer and chat template: for transformers, vLLM, or a converter to GGUF. `last` is the newest
    training that has a version.

    \b
      agentfw export last my-model --merge
    """
    from agentfw.host import find_project
    from agentfw.runs import find_training

    from .exporting import export_version

    project = find_project()
    found = find_training(runs or (project.runs if project is not None else Path("runs")), run)
    version, whole = export_version(found, folder, merge=merge)
    if out.json:
        out.data({"run": found.id, "version": version, "folder": str(folder), "whole": whole})
        return
    out.line(f"{version}   {folder}/")
    if whole:
        out.note(f"serve it: agentfw serve --set policy.model={folder}")
