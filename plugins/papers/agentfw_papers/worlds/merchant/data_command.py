"""`agentfw data warm merchant` and `agentfw data make merchant`: analyses done beforehand, and a log of likes.

    agentfw data warm merchant --cache analyses.db
    agentfw train merchant --set environment.cache=analyses.db

    agentfw data make merchant --out logs
    agentfw reward fit logs/interactions.csv --items logs/items.csv --profiles logs/profiles.csv --out preferences

This module is imported for `agentfw data make --help`, so each command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option


@click.command("merchant")
@click.option("--cache", required=True, type=click.Path(dir_okay=False), help="File of the tape.")
@click.option("--world", type=click.IntRange(0), default=7, show_default=True, help="Seed of the market.")
@json_option
def warm_merchant(cache: str, world: int, out: Out) -> None:
    """Keep every analysis of the market, with default arguments."""
    from .warming import warm

    counts = warm(cache, world)
    if out.json:
        out.data(counts)
        return
    out.line(f"{counts['done']:,} analyses done; {cache} keeps {counts['kept']:,}")


@click.command("merchant")
@click.option(
    "--out", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Output directory."
)
@click.option("--world", type=click.IntRange(0), default=7, show_default=True, help="Seed of the market.")
@json_option
def make_merchant(folder: Path, world: int, out: Out) -> None:
    """Write what merchants took on in the past, the products, and the merchants' profiles."""
    from .logs import write_logs
    from .merchant_settings import MerchantSettings

    about = write_logs(folder, MerchantSettings(world=world))
    if out.json:
        out.data(about)
        return
    out.line(f"{about['likes']:,} likes of {about['items']} products by {about['merchants']} merchants, in {folder}")
