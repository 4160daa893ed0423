"""`agentfw forget`: delete all data of a user from a loop, with a receipt.

agentfw forget ana --loop loops/assistant
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agentfw.printing.out import Out
from agentfw_cli.common import host_options, json_option, load_host

__all__ = ["forget"]


@click.command()
@click.argument("user")
@click.option("--loop", "folder", type=click.Path(path_type=Path), required=True, help="Directory of the loop.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@host_options
@json_option
def forget(user: str, folder: Path, yes: bool, blocked: tuple[str, ...], strict: bool, as_json: bool) -> None:
    """Delete all data of USER from a loop, and compute its tables again.

    USER is taken out of the memories, the reward models, the state of the optimizers and the records of all runs. The
    loop must be complete. This cannot be undone. To delete a user from a memory that is not part of a loop, use
    `agentfw memory forget`.
    """
    from agentfw.errors import UsageError
    from agentfw.loops import forget as forget_in_loop

    out = Out(json=as_json)
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(
                "forgetting can't be undone, and there is no terminal to confirm it on",
                fix=f"agentfw forget {user} --loop {folder} --yes",
            )
        click.confirm(f"Forget {user} in {folder}? This cannot be undone.", abort=True, err=True)
    receipt = forget_in_loop(folder, user, load_host(out, blocked, strict))
    if receipt.empty:
        out.note(f"no data of {user} was found; is the name right?")
    if out.json:
        out.data(receipt.to_record())
        return
    rows = [
        ["lines of records", receipt.records],
        ["runs with such lines", receipt.runs],
        ["states of optimizers", receipt.optimizers],
        ["reward models", receipt.models],
        *([f"memory: {name.replace('_', ' ')}", count] for name, count in receipt.memories.items()),
    ]
    out.table(["forgotten", "number"], [[str(name), f"{count:,}"] for name, count in rows], right=(1,))
