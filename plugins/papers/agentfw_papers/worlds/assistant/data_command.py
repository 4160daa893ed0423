"""`agentfw data make assistant`: write the log of the world, for a preference model or another learner.

    agentfw data make assistant --out logs
    agentfw reward fit logs/interactions.csv --items logs/items.csv --profiles logs/profiles.csv --out preferences

This module is imported for `agentfw data make --help`, so the command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option


@click.command("assistant")
@click.option(
    "--out", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Output directory."
)
@click.option("--truth", is_flag=True, help="Also write the hidden tastes.")
@click.option("--world", type=click.IntRange(0), default=7, show_default=True, help="Seed of the world.")
@json_option
def make_assistant(folder: Path, truth: bool, world: int, out: Out) -> None:
    """Write what users liked before the assistant came, the items, and the users' profiles."""
    from .assistant_settings import AssistantSettings
    from .logs import write_logs

    about = write_logs(folder, AssistantSettings(world=world), truth=truth)
    if out.json:
        out.data(about)
        return
    users = ", ".join(f"{count} {split}" for split, count in about["users"].items())
    out.line(f"{about['likes']:,} likes of {about['items']} items; users: {users}")
    out.line(f"written to {folder}")
