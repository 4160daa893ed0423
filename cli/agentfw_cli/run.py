"""`agentfw run`: runs an agent in an environment.

agentfw run inbox --episodes 80 --set environment.rate=0.5
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agentfw_cli.completion import EnvironmentName
from agentfw_cli.execution import execute_spec
from agentfw_cli.spec_options import spec_options

__all__ = ["run"]


@click.command()
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
