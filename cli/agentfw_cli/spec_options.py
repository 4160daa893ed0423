"""The options that say what a run or a training is made of, and how they come to a spec.

The one rule: what a person gave last and most precisely holds: a spec file, then the options, then `--set`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from agentfw_cli.common import host_options, json_option, runs_option

__all__ = ["kept", "name_in", "spec_options", "with_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_SINGLE = ("policy", "optimizer", "learner", "teacher")
_LISTS = ("memories", "tools", "rewards", "trackers")


def spec_options(command: Command) -> Command:
    """What `run` and `train` have in common."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


def _several(option: str, name: str, metavar: str, words: str) -> Callable[[Command], Command]:
    return click.option(option, name, multiple=True, metavar=metavar, help=words)


_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option("--policy", metavar="NAME", help="Who decides."),
    _several("--memory", "memories", "NAME", "What it remembers with; may be repeated."),
    _several("--tool", "tools", "NAME", "What it can call besides; may be repeated."),
    _several("--reward", "rewards", "NAME[=WEIGHT]", "What its work is scored by; may be repeated."),
    _several("--tracker", "trackers", "NAME", "Where figures go besides; may be repeated."),
    click.option("--interface", metavar="NAME", help="event_driven, step_loop, polling:EVERY or reflex."),
    click.option("--seed", type=int, help="Where every random choice comes from."),
    _several("--plugin", "distributions", "DIST", "A plugin that must be there and whole."),
    _several("--set", "assignments", "KEY=VALUE", "Any setting, such as environment.rate=0.5."),
    click.option("--spec", type=click.Path(path_type=Path), help="A TOML file to start from."),
    runs_option,
    host_options,
    click.option("--quiet", is_flag=True, help="No progress, no hints."),
    json_option,
)


def with_options(values: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, over the values of a spec. A list that is given takes the place of the spec's.

    A component that is named again keeps the settings that it has there.
    """
    given = {key: value for key, value in options.items() if value is not None and value != ()}
    for key in _SINGLE:
        if key in given:
            given[key] = kept(values.get(key), given[key])
    for key in _LISTS:
        if key not in given:
            continue
        listed = values.get(key, ())
        before = {name_in(choice): choice for choice in (listed if isinstance(listed, list) else [listed])}
        choices = []
        for text in given[key]:
            name, equals, weight = text.partition("=") if key == "rewards" else (text, "", "")
            choice = kept(before.get(name), name)
            choices.append({**choice, "weight": _weight(weight)} if equals else choice)
        given[key] = choices
    return {**values, **given}


def kept(before: Any, name: str) -> dict[str, Any]:
    """A component by its name, with the settings that it had."""
    return dict(before) if isinstance(before, dict) and before.get("name") == name else {"name": name}


def _weight(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def name_in(choice: Any) -> Any:
    return choice.get("name") if isinstance(choice, dict) else choice
