"""`agentfw view`: all recorded episodes on a page of this machine, or as a folder of pages.

    agentfw view
    agentfw view last --bundle site

This module is imported for --help, so the command imports what it needs.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted

from ..command_options import json_option

if TYPE_CHECKING:
    from agentfw import Host

    from .index import Index

_PORT = 8766
_PAUSE = 0.5
"""Seconds between two looks at how far the reading is."""


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--runs", "folder", type=click.Path(path_type=Path), help="Directory of runs. Default: ./runs.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Port to listen on; 0 for any free one.",
)
@click.option("--bundle", type=click.Path(path_type=Path), help="Write the pages of each RUN into this new directory.")
@click.option(
    "--text", "address", metavar="RUN[:EPISODE[:TURN]]", help="Print this part as text. ?FILTER can follow RUN."
)
@click.option("--tokens", type=click.IntRange(50), default=2000, show_default=True, help="With --text: about how much.")
@json_option
def view(
    runs: tuple[str, ...],
    folder: Path | None,
    port: int,
    bundle: Path | None,
    address: str | None,
    tokens: int,
    out: Out,
) -> None:
    """Show all recorded episodes: which failed, what was said, called and remembered, and what others did.

    RUN is the path of a run, its name, the end of its name, or `last`. A folder of runs, such as that of a loop, can be
    given instead. Without RUN, all runs are shown.

    \b
      agentfw view
      agentfw view loops/first
      agentfw view last --bundle site
      agentfw view --text last:00003-0
    """
    from .index import Index

    if address is not None:
        from .text import as_text, part_at

        named = re.split("[:?]", address, maxsplit=1)[0]
        root, [name] = _chosen((named,), folder)
        index = Index(root)
        index.refresh()
        part = part_at(index, name + address.removeprefix(named), tokens)
        if out.json:
            out.data(part)
        else:
            for line in as_text(part).splitlines():
                out.line(line)
        return
    root, names = _chosen(runs, folder)
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}", fix="start a run: agentfw run")
    index, host = Index(root), _host()
    if bundle is not None:
        from .bundle import write_bundle

        if not names:
            raise UsageError("--bundle needs the runs that it is made of", fix="agentfw view last --bundle site")
        with out.progress("reading the runs") as tell:
            index.refresh()
            count = write_bundle(index, names, bundle, host, lambda done, of: tell(f"{done:,} of {of:,} episodes"))
        if out.json:
            out.data({"folder": str(bundle), "episodes": count})
        else:
            out.line(f"{bundle}/index.html   {counted(count, 'episode')}")
        return
    asyncio.run(_serve(index, host, names, port, out))


async def _serve(index: Index, host: Host, names: list[str], port: int, out: Out) -> None:
    from urllib.parse import quote

    from ..serving import serving
    from .app import Viewer

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(Viewer(index, host).app, "127.0.0.1", port) as url:
        page = f"{url}/?run={quote(names[0])}" if len(names) == 1 else f"{url}/"
        if out.json:
            out.data({"url": page})
        else:
            out.line(page)
            out.note("everybody who can log in on this machine can read it; stop with Ctrl-C")
        out.stream.flush()
        reading = asyncio.create_task(_read(index, out))
        await stop.wait()
        reading.cancel()


async def _read(index: Index, out: Out) -> None:
    """Begin to read before the first page is asked for."""
    with out.progress("reading the runs") as tell:
        while not index.look(0).is_whole:
            tell(f"reading the runs: {index.count():,} episodes")
            await asyncio.sleep(_PAUSE)


def _chosen(runs: tuple[str, ...], folder: Path | None) -> tuple[Path, list[str]]:
    """The folder of the runs, and the names of those that were chosen."""
    from agentfw.host import runs_directory
    from agentfw.runs import find_run

    root = runs_directory(folder)
    if len(runs) == 1 and Path(runs[0]).is_dir() and not (Path(runs[0]) / "run.json").exists():
        return Path(runs[0]), []
    found = [find_run(root, name).path for name in runs]
    elsewhere = {path.parent.resolve() for path in found} - {root.resolve()}
    if found and len(elsewhere) == 1 and all(path.parent.resolve() in elsewhere for path in found):
        root = found[0].parent
    elif elsewhere:
        raise UsageError("these runs are in several folders", fix="name runs of one folder, or the folder itself")
    return root, [path.name for path in found]


def _host() -> Host:
    from agentfw import Host
    from agentfw.host import HostOptions, find_project

    return Host.load(HostOptions.from_environment(project=find_project()))
