"""`agentfw run`: runs an agent in an environment.

agentfw run inbox --episodes 80 --set environment.rate=0.5
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from agentfw_cli.common import load_command
from agentfw_cli.completion import EnvironmentName
from agentfw_cli.execution import execute_spec
from agentfw_cli.offers import run_offers
from agentfw_cli.spec_options import spec_options

if TYPE_CHECKING:
    from agentfw.boundary.metadata import EntryPoint

__all__ = ["run"]


class _Run(click.Command):
    """`run`, and the options that plugins bring; none of them takes the place of one of ours."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        offers = self._offers()
        for word in args:
            found = offers.get(word.partition("=")[0])
            if found:
                command = load_command(f'the option "{word.partition("=")[0]}" of run', found)
                asked = [each for each in args if each in ("-h", "--help")]  # also where the option has no value yet
                return command.make_context(info_name, asked or args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        offers = self._offers()
        if offers:
            with formatter.section("Environments with options of their own (see their --help)"):
                formatter.write_dl(
                    [
                        (f"{some[0].name.partition('.')[0]} {option}", f"from {some[0].distribution}")
                        for option, some in offers.items()
                    ]
                )

    def _offers(self) -> dict[str, list[EntryPoint]]:
        ours = {name for parameter in self.params for name in parameter.opts}
        return {option: some for option, some in run_offers().items() if option not in ours}


@click.command(cls=_Run)
@click.argument("environment", required=False, type=EnvironmentName())
@click.option("--episodes", type=int, help="Number of tasks to play.")
@spec_options
def run(**given: Any) -> None:
    """Run an agent in ENVIRONMENT and report how well it does.

    Without ENVIRONMENT, the default spec is run. ENVIRONMENT can also be the name of a spec that a plugin ships.
    Settings come from the spec, then from the options, then from --set; the later ones win.

    \b
      agentfw run
      agentfw run inbox --interface step_loop --set environment.rate=0.5
      agentfw run gymnasium --policy random --set environment.id=CartPole-v1
    """
    from agentfw.runs.spec.start import start_of_run

    execute_spec(start_of_run, _check, **given)


def _check(values: Mapping[str, Any]) -> None:
    from agentfw.errors import UsageError

    if values.get("optimizer") is not None:
        raise UsageError("this spec has an optimizer, so it is a training", fix="see: agentfw train --help")
