"""`agentfw view`: all recorded episodes on a page of this machine, or as a folder of pages.

This module is imported for --help, so the command imports what it needs.
"""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import UsageError
from agentfw.host import Host
from agentfw.printing.out import Out, counted

from ..command_options import json_option, one_line, runs_option, show

if TYPE_CHECKING:
    from .index import Index

_PORT = 8766
_PAUSE = 0.5  # seconds between two looks at how far the reading is


class _View(click.Command):
    """`view`, which is followed by runs, or by `scan`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["scan"]:
            return scan.make_context(f"{info_name} scan", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


_names_argument = click.argument("names", nargs=-1, metavar="[RUN]...")


@click.command(cls=_View)
@_names_argument
@runs_option
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
@click.option(
    "--allow-start", is_flag=True, help="Let the pages start trainings on ratings, and ask recorded questions again."
)
@click.option("--tokens", type=click.IntRange(50), default=2000, show_default=True, help="With --text: about how much.")
@json_option
def view(
    names: tuple[str, ...],
    runs: Path,
    port: int,
    bundle: Path | None,
    address: str | None,
    allow_start: bool,
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
      agentfw view scan --help      ask a function or a model about all episodes
    """
    from .index import Index

    if address is not None:
        from agentfw.runs import find_run

        from .text import as_text, part_at

        named = re.split("[:?]", address, maxsplit=1)[0]
        run = find_run(runs, named).path
        index = Index(run.parent)
        index.refresh()
        part = part_at(index, run.name + address.removeprefix(named), tokens)
        show(out, part, *as_text(part).splitlines())
        return
    root, chosen = _chosen(names, runs)
    if not root.is_dir():
        raise UsageError(f"there is no folder {root}", fix="start a run: agentfw run")
    index, host = Index(root), Host.load()
    if bundle is not None:
        from .bundle import write_bundle

        if not chosen:
            raise UsageError("--bundle needs the runs that it is made of", fix="agentfw view last --bundle site")
        with out.progress("reading the runs") as tell:
            index.refresh()
            count = write_bundle(index, chosen, bundle, host, lambda done, of: tell(f"{done:,} of {of:,} episodes"))
        told = {"folder": str(bundle), "episodes": count}
        show(out, told, f"{bundle}/index.html   {counted(count, 'episode')}")
        return
    asyncio.run(_serve(index, host, chosen, port, allow_start, out))


@click.command()
@_names_argument
@click.option("--with", "function", metavar="FILE.py:FUNCTION", help="Function of an Episode that returns a finding.")
@click.option("--ask", "question", metavar="TEXT", help="Question to a policy about each episode.")
@click.option("--policy", default="openai", show_default=True, metavar="NAME", help="With --ask: policy to ask.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting of the policy. Can be repeated."
)
@click.option("--at-once", type=click.IntRange(1), default=8, show_default=True, help="Questions at the same time.")
@runs_option
@json_option
def scan(
    names: tuple[str, ...],
    function: str | None,
    question: str | None,
    policy: str,
    assignments: tuple[str, ...],
    at_once: int,
    runs: Path,
    out: Out,
) -> None:
    """Look for something in all episodes of each RUN, with a function of yours or a question to a model.

    What is found is kept beside the record. Run the same command again to resume, or to scan what is new.

    \b
      agentfw view scan last --with checks.py:apologised
      agentfw view scan last --ask "Did it promise what it can't know?" --set model=NAME
    """
    from agentfw.boundary.settings_input import parse_assignments

    from .index import Index
    from .scan import of_function, of_question, scan_runs

    if (function is None) == (question is None):
        raise UsageError("a scan needs a function or a question", fix="--with FILE.py:FUNCTION, or --ask TEXT")
    if not names:
        raise UsageError("a scan needs the runs to look at", fix="agentfw view scan last ...")
    root, chosen = _chosen(names, runs)
    if function is not None:
        scanner = of_function(function)
    else:
        scanner = of_question(question or "", Host.load(), policy, parse_assignments(assignments))
    index = Index(root)
    with out.progress("reading the runs") as tell:
        index.refresh()
        scanned = scan_runs(index, chosen, scanner, at_once, lambda done, of: tell(f"{done:,} of {of:,} episodes"))
        found = asyncio.run(scanned)
    if out.json:
        out.data({"scan": scanner.name, "found": [{"episode": one, "text": text} for one, text in found.items()]})
        return
    if found:
        out.table(["episode", "found"], [[one, one_line(text)] for one, text in found.items()])
    out.line(f"{counted(len(found), 'episode')} with a finding; see: agentfw view {names[0]}")


async def _serve(index: Index, host: Host, names: list[str], port: int, allow_start: bool, out: Out) -> None:
    from urllib.parse import quote

    from ..serving import serving
    from .app import Viewer

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    viewer = Viewer(index, host, allow_start=allow_start)
    async with serving(viewer.app, "127.0.0.1", port) as url:
        page = f"{url}/?run={quote(names[0])}" if len(names) == 1 else f"{url}/"
        show(out, {"url": page}, page)
        if not out.json:
            out.note("everybody who can log in on this machine can read it; stop with Ctrl-C")
        out.stream.flush()

        async def read() -> None:
            """Begin to read before the first page is asked for."""
            with out.progress("reading the runs") as tell:
                while not index.look(0).is_whole:
                    tell(f"reading the runs: {index.count():,} episodes")
                    await asyncio.sleep(_PAUSE)

        reading = asyncio.create_task(read())
        await stop.wait()
        reading.cancel()
    for command in viewer.started or ():
        command.process.terminate()


def _chosen(names: tuple[str, ...], runs: Path) -> tuple[Path, list[str]]:
    """The folder of the runs, and the names of those that were chosen."""
    from agentfw.runs import find_run

    if len(names) == 1 and Path(names[0]).is_dir() and not (Path(names[0]) / "run.json").exists():
        return Path(names[0]), []
    found = [find_run(runs, name).path for name in names]
    if len({path.parent.resolve() for path in found}) > 1:
        raise UsageError("these runs are in several folders", fix="name runs of one folder, or the folder itself")
    return found[0].parent if found else runs, [path.name for path in found]
