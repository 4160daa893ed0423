"""The options that `run` and `train` have in common, and how they change a spec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentfw_cli.common import host_options, json_option, quiet_option, runs_option

__all__ = ["kept", "name_in", "set_option", "spec_option", "spec_options", "with_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_SINGLE = ("policy", "optimizer", "learner", "teacher")
_LISTS = ("memories", "tools", "rewards", "trackers")
_WITH_MORE = {"tools": "alias", "rewards": "weight"}
"""Lists whose options have the form NAME=VALUE, and the key that the value is for."""


def spec_options(command: Command) -> Command:
    """Add the options that `run` and `train` have in common."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


def _several(option: str, name: str, metavar: str, words: str) -> Callable[[Command], Command]:
    return click.option(option, name, multiple=True, metavar=metavar, help=words)


set_option = _several(
    "--set", "assignments", "KEY=VALUE", "Change a setting, such as environment.rate=0.5. Can be repeated."
)
spec_option = click.option("--spec", type=click.Path(path_type=Path), help="Spec file (TOML) to start from.")
_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option("--policy", metavar="NAME", help="Policy that makes the decisions."),
    _several("--memory", "memories", "NAME", "Memory to use. Can be repeated."),
    _several(
        "--tool",
        "tools",
        "NAME[=ALIAS]",
        "Tool that the agent can call. Can be repeated; an alias tells two of one name apart.",
    ),
    _several("--reward", "rewards", "NAME[=WEIGHT]", "Reward model to score with. Can be repeated."),
    _several("--tracker", "trackers", "NAME", "Also log metrics to this tracker. Can be repeated."),
    click.option(
        "--interface",
        metavar="NAME",
        help="How observations reach the agent: event_driven, step_loop, polling:EVERY or reflex.",
    ),
    click.option("--seed", type=int, help="Random seed."),
    _several(
        "--plugin", "distributions", "DIST[==VERSION]", "Plugin that must be installed and working. Can be repeated."
    ),
    set_option,
    spec_option,
    runs_option,
    host_options,
    quiet_option,
    json_option,
)


def with_options(values: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Put the options that were given into the values of a spec. A list takes the place of the spec's list.

    A component that is named again keeps the settings that it has in the spec.
    """
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    for key in _SINGLE:
        if key in given:
            given[key] = kept(values.get(key), given[key])
    for key in _LISTS:
        if key not in given:
            continue
        listed = values.get(key, ())
        listed = listed if isinstance(listed, list) else [listed]
        before = {(str(name_in(choice)), str(_alias_in(choice))): choice for choice in listed}
        choices = []
        for text in given[key]:
            name, equals, more = text.partition("=") if key in _WITH_MORE else (text, "", "")
            own = {_WITH_MORE[key]: _weight(more) if key == "rewards" else more} if equals else {}
            alias = str(own.get("alias", ""))
            choices.append({**kept(before.get((name, alias)), name), **own})
        given[key] = choices
    return {**values, **given}


def kept(before: Any, name: str) -> dict[str, Any]:
    """The component of that name, with its settings where `before` is the same component."""
    return dict(before) if isinstance(before, dict) and before.get("name") == name else {"name": name}


def _weight(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _alias_in(choice: Any) -> Any:
    return choice.get("alias", "") if isinstance(choice, dict) else ""


def name_in(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice
