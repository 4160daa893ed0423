"""`agentfw data make merchant`: a log of likes.

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
