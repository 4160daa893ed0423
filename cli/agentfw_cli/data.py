"""`agentfw data`: the data sets of worlds, made and checked by commands that the worlds bring.

A world's command is an entry point of the group `agentfw.data`, called VERB.WORLD, such as `make.merchant`.
"""

from __future__ import annotations

import click

from agentfw.boundary import metadata
from agentfw.boundary.metadata import EntryPoint
from agentfw_cli.common import load_command, unknown_name

_GROUP = "agentfw.data"


class _Worlds(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._offers())

    def get_command(self, context: click.Context, name: str) -> click.Command:
        offers = self._offers()
        if name not in offers:
            raise unknown_name(f"data set to {self.name}", name, offers)
        return load_command(f'the command "data {self.name} {name}"', offers[name])

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, f"from {' and '.join(offer.distribution for offer in offers)}")
            for name, offers in self._offers().items()
        ]
        if rows:
            with formatter.section("Worlds"):
                formatter.write_dl(rows)

    def _offers(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for entry in sorted(metadata.entry_points(_GROUP), key=lambda entry: entry.name):
            verb, _, world = entry.name.partition(".")
            if verb == self.name:
                found.setdefault(world, []).append(entry)
        return found


@click.group()
def data() -> None:
    """Write and check the data sets of environments."""


data.add_command(_Worlds("make", help="Write a data set to disk."))
data.add_command(_Worlds("check", help="Check the sources of a data set."))
