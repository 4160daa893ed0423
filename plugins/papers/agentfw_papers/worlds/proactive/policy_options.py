"""Options of the commands that ask a policy about dialogues, and what they have in common.

This module is imported for `agentfw proactive --help`, so each function imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out

if TYPE_CHECKING:
    from agentfw import Host, Policy
    from agentfw.runs import SamplingSettings

    from .asking import Asked, Progress

Command = TypeVar("Command", bound=Callable[..., Any])
Result = TypeVar("Result", bound="Asked")

_OPTIONS = (
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting, such as policy.model=gpt-5-mini or sampling.temperature=0. Can be repeated.",
    ),
    click.option(
        "--jobs", type=click.IntRange(1), default=4, show_default=True, help="Maximum number of requests at once."
    ),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=3,
        show_default=True,
        help="Maximum number of retries after an unusable answer.",
    ),
)


def asking_options(command: Command) -> Command:
    """Add `--set`, `--jobs` and `--retries`."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


class Chosen(NamedTuple):
    """The policy that a command asks."""

    policy: Policy
    name: str
    """Policy, version and settings: answers are kept under it."""
    sampling: SamplingSettings
    host: Host
    """While it is there, secrets are struck out of what is written and printed."""


def chosen_policy(policy: str, assignments: tuple[str, ...]) -> Chosen:
    """The policy of this name, with the settings that were assigned."""
    import json

    from agentfw import Host, Policy
    from agentfw.boundary.settings_input import parse_assignments, validate
    from agentfw.errors import PluginError
    from agentfw.runs import SamplingSettings

    from .asking import SAMPLING

    values = parse_assignments(assignments)
    if unknown := values.keys() - {"policy", "sampling"}:
        raise UsageError(f'--set doesn\'t know "{sorted(unknown)[0]}"', fix="set policy.KEY or sampling.KEY")
    sampling = validate(SamplingSettings, SAMPLING.model_dump() | _table(values, "sampling"), "sampling")
    assert isinstance(sampling, SamplingSettings)
    settings = _table(values, "policy")
    host = Host.load()
    made = host.create("policy", policy, settings)
    if not isinstance(made, Policy):
        raise PluginError(f'policy "{policy}" is no Policy but {type(made).__name__}', fix="choose another policy")
    name = f"{policy} {host.find('policy', policy).record.version} {json.dumps(settings, sort_keys=True, default=str)}"
    return Chosen(made, name, sampling, host)


def asking(chosen: Chosen, work: Callable[[Progress], Coroutine[Any, Any, Result]], journal: Path, out: Out) -> Result:
    """Do what asks the policy, show how far it is, and say which answers in the journal are not used."""
    import asyncio

    async def whole() -> Result:
        try:
            with out.progress("asking") as tell:
                return await work(lambda done, all: tell(f"{done} of {all} answers"))
        finally:
            await chosen.policy.close()

    found = asyncio.run(whole())
    if found.unused:
        out.note(f"{found.unused} answers in {journal} are to other questions, for example of another policy: not used")
    return found


def _table(values: dict[str, Any], key: str) -> dict[str, Any]:
    table = values.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{key}={table} is not a setting", fix=f"set {key}.KEY=VALUE")
    return table
