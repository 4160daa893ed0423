"""`agentfw data check etapp` and `agentfw data make etapp-hard`: work on a user's own copy of ETAPP.

    agentfw data check etapp ETAPP
    agentfw data make etapp-hard ETAPP --out hard --policy openai --set policy.model=MODEL

This module is imported for `agentfw data make --help`, so each command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.errors import PluginError, UsageError
from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option

_FOLDER = click.Path(path_type=Path, file_okay=False)
_SHOWN = 40


@click.command("etapp")
@click.argument("folder", type=_FOLDER)
@json_option
def check_etapp(folder: Path, out: Out) -> None:
    """Show what of a copy of ETAPP can be used, and what is missing or damaged."""
    from .copy_of_etapp import check

    facts = check(str(folder))
    if out.json:
        out.data(facts)
        return
    counts = facts["counts"]
    out.line(
        f"{counts['persons']} persons, {counts['instructions']} instructions: {counts['tasks']} tasks; "
        f"{counts['tools']} tools in {counts['sections']} sections"
    )
    for table, rows in facts["rows"].items():
        out.line(f"  {table}: {rows:,} rows")
    for gap in facts["gaps"][:_SHOWN]:
        out.line(gap)
    if len(facts["gaps"]) > _SHOWN:
        out.line(f"and {len(facts['gaps']) - _SHOWN} more gaps; all of them: --json")


@click.command("etapp-hard")
@click.argument("folder", type=_FOLDER)
@click.option(
    "--out", "to", type=_FOLDER, required=True, help="Output directory. Run the same command again to resume."
)
@click.option("--policy", default="", help="Policy that writes the requests. Default: a template, without a model.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting of the policy. Can be repeated."
)
@click.option(
    "--count", type=click.IntRange(10, 100_000), default=200, show_default=True, help="Number of instructions."
)
@click.option(
    "--part",
    type=click.Choice(["instruction", "instance"]),
    default="instruction",
    show_default=True,
    help="What train and test don't share.",
)
@click.option(
    "--rows", type=click.Choice(["jsonl", "parquet"]), default="jsonl", show_default=True, help="Form of the rows."
)
@json_option
def make_etapp_hard(
    folder: Path, to: Path, policy: str, assignments: tuple[str, ...], count: int, part: str, rows: str, out: Out
) -> None:
    """Write hard instructions, and rows of them with each person, split nine to one."""
    import asyncio
    from hashlib import blake2b

    from agentfw import Host, Policy
    from agentfw.boundary.settings_input import parse_assignments

    from .copy_of_etapp import load_copy
    from .hard import PolicyWriter, make_hard, tasks_of, write_by_template
    from .rows import write_rows

    values = parse_assignments(assignments)
    settings = values.get("policy", {})
    if values.keys() - {"policy"} or not isinstance(settings, dict) or (values and not policy):
        raise UsageError("--set takes settings of the policy", fix="--policy openai --set policy.model=MODEL")
    copy = load_copy(str(folder))

    async def work() -> dict[str, object]:
        if not policy:
            return await make_hard(copy, to, write_by_template, name="template", count=count, progress=progress)
        host = Host.load()  # while it is there, secrets are struck out of what is written
        made = host.create("policy", policy, settings)
        if not isinstance(made, Policy):
            raise PluginError(f'policy "{policy}" is no Policy but {type(made).__name__}', fix="choose another policy")
        try:
            # Settings can hold secrets, so only their digest is written down.
            digest = blake2b(repr(settings).encode("utf-8", "replace"), digest_size=8).hexdigest()
            name = f"{policy} {digest}"
            return await make_hard(copy, to, PolicyWriter(made), name=name, count=count, progress=progress)
        finally:
            await made.close()

    with out.progress("writing instructions") as tell:

        def progress(done: int) -> None:
            tell(f"{done} of {count} instructions")

        counts = asyncio.run(work())
    written = write_rows(copy, to, tasks_of(copy, to, part), rows)
    if out.json:
        out.data({**counts, "rows": written})
        return
    out.line(f"{counts['instructions']} instructions in {counts['attempts']} attempts; not used: {counts['not_used']}")
    out.line(f"rows: {', '.join(f'{number:,} {split}' for split, number in written.items())}, in {to}")
    played = f"--set environment.folder={folder} --set environment.instructions={to / 'instruction.json'}"
    out.line(f"next: agentfw run etapp {played}")
