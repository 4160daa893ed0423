"""The options that `run` and `train` have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentfw_cli.common import host_options, json_option, quiet_option, runs_option
from agentfw_cli.completion import ComponentName

__all__ = ["samples_option", "set_option", "spec_option", "spec_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def spec_options(command: Command) -> Command:
    """Add the options that `run` and `train` have in common."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


def _several(
    option: str, name: str, metavar: str, words: str, of: ComponentName | None = None
) -> Callable[[Command], Command]:
    return click.option(option, name, multiple=True, type=of, metavar=metavar, help=words)


set_option = _several(
    "--set", "assignments", "KEY=VALUE", "Change a setting, such as environment.rate=0.5. Can be repeated."
)
samples_option = click.option(
    "--samples", is_flag=True, help="Print three sampled answers of each update: the best, the median and the worst."
)
spec_option = click.option("--spec", type=click.Path(path_type=Path), help="Spec file (TOML) to start from.")
_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--policy",
        type=ComponentName("policy"),
        metavar="NAME",
        help="Policy that makes the decisions, or a run: its policy, of a training the newest version.",
    ),
    _several("--memory", "memories", "NAME", "Memory to use. Can be repeated.", ComponentName("memory")),
    _several(
        "--tool",
        "tools",
        "NAME[=ALIAS]",
        "Tool that the agent can call. Can be repeated; an alias tells two of one name apart.",
        ComponentName("tool"),
    ),
    _several(
        "--reward", "rewards", "NAME[=WEIGHT]", "Reward model to score with. Can be repeated.", ComponentName("reward")
    ),
    _several(
        "--tracker", "trackers", "NAME", "Also log metrics to this tracker. Can be repeated.", ComponentName("tracker")
    ),
    click.option(
        "--interface",
        metavar="NAME",
        help="How observations reach the agent: event_driven, step_loop, polling:EVERY or reflex.",
    ),
    click.option("--seed", type=int, help="Random seed."),
    _several(
        "--plugin",
        "distributions",
        "DIST[VERSIONS]",
        "Plugin that must be installed and working, such as 'agentfw-tea>=1.2'. Can be repeated.",
    ),
    set_option,
    spec_option,
    runs_option,
    host_options,
    quiet_option,
    json_option,
)
