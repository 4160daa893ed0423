"""Runs 2,307 broken plugins, each in a process of its own: does each run end, and does it name the culprit?

A plugin raises, returns something else, changes what belongs to the process, or hangs, in each call that a run makes of
it. One that hangs is sent one SIGINT. What must hold for each of them: the process ends (after SIGINT within two
seconds), what goes wrong is told with the distribution and the component, nothing is called a bug of agentfw, and the
records on disk can be read. Who cancels every task of the process in a call that isn't awaited may go unnamed: then it
is only known that a plugin did so. What a plugin replaces in the process for everybody (`json.dumps`, `open`, the
working directory, `sys.excepthook`, the descriptor of stderr) stays replaced, so that is no case here.

    python benchmarks/plugin_zoo.py                              # about an hour on two cores
    python benchmarks/plugin_zoo.py --only memory-recall --json
    python benchmarks/plugin_zoo.py --parts 30 --part 4          # a thirtieth, drawn by lot
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentfw.errors import AgentfwError
from agentfw.runs.records.folder import RunFolder
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_benchmarks.figures import share_of
from agentfw_benchmarks.zoo_cases import AT_THE_END, DISTRIBUTION, GLOBALS, RETURNS, Case, cases, source

_LONGEST = 60.0
"""Seconds after which a run that should end by itself hasn't."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one case."""

    name: str
    fault: str
    code: int
    """The exit code; -1 where it was killed because it didn't end."""
    seconds: float
    """From the start, or from SIGINT, to the end."""
    wrong: tuple[str, ...]
    """What should have held and didn't."""
    told: str


def install(folder: Path, every: list[Case]) -> None:
    """Write the distribution."""
    dist_info = folder / "agentfw_zoo-1.0.0.dist-info"
    dist_info.mkdir(parents=True)
    (folder / "agentfw_zoo.py").write_text(source(every), "utf-8")
    (dist_info / "METADATA").write_text(f"Name: {DISTRIBUTION}\nVersion: 1.0.0\n", "utf-8")
    (dist_info / "entry_points.txt").write_text("[agentfw]\nzoo = agentfw_zoo\n", "utf-8")


def run(case: Case, home: Path) -> Seen:
    """One case in a child of this process, which has imported everything already."""
    home.mkdir()
    began = time.monotonic()
    child = os.fork()
    if not child:
        _in_the_child(case, home)
    code: int | None = None
    if case.hangs:
        while code is None and not (home / "busy").exists() and time.monotonic() - began < _LONGEST:
            time.sleep(0.02)
            code = _ended(child)
        if code is None:
            began = time.monotonic()
            os.kill(child, signal.SIGINT)
    while code is None and time.monotonic() - began < _LONGEST:
        time.sleep(0.01)
        code = _ended(child)
    seconds = time.monotonic() - began
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    told = (home / "told").read_text("utf-8", "replace")
    return Seen(case.name, case.fault, -1 if code is None else code, seconds, _wrong(case, code, told, home), told)


def _in_the_child(case: Case, home: Path) -> None:
    from agentfw_cli.main import main

    os.chdir(home)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a script it is ignored
    os.environ["ZOO_BUSY"] = str(home / "busy")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # who reads from a terminal waits for a person
    for number, name in ((1, "table"), (2, "told")):
        os.dup2(os.open(home / name, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.FileIO(1, "w")),
        io.TextIOWrapper(io.FileIO(2, "w"), write_through=True),
    )
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    sys.argv = ["agentfw", *case.words, "--set", "deadline=20"]
    try:
        main()
    except SystemExit as ended:
        sys.stdout.flush()
        _leave(int(ended.code or 0))
    except BaseException as error:
        sys.stderr.write(f"escaped: {type(error).__name__}\n")
    _leave(99)


def _leave(code: int) -> None:
    """End as Python does: after the threads that it waits for."""
    import threading

    with contextlib.suppress(AttributeError):
        threading._shutdown()  # type: ignore[attr-defined]
    os._exit(code)


def _ended(child: int) -> int | None:
    found, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _wrong(case: Case, code: int | None, told: str, home: Path) -> tuple[str, ...]:
    wrong = []
    if code is None:
        return ("it didn't end",)
    if code not in ((130,) if case.hangs else (0, 2, 3)):
        wrong.append(f"exit code {code}")
    unwanted = ("bug in agentfw", "Traceback", "escaped", "disk space", "Exception ignored")
    wrong += [f'it says "{word}"' for word in unwanted if word in told]
    unnamed = case.fault == "cancels_all" and "a plugin has cancelled the run" in told
    if not case.hangs and (code or _must_be_told(case)) and not (unnamed or all(word in told for word in case.told)):
        wrong.append("the culprit isn't named")
    if case.hangs and case.fault in ("holds_on", "takes_handler") and DISTRIBUTION not in told:
        wrong.append("what hung isn't named")
    for folder in (home / "runs").glob("*/run.json"):
        try:
            found = RunFolder.open(folder.parent)
            list(found.episodes())
            found.metrics()
        except AgentfwError as error:
            wrong.append(f"records: {error.message}")
    return tuple(wrong)


def _must_be_told(case: Case) -> bool:
    """Whether it can't pass in silence. A changed seed or an answer that nobody uses may."""
    harmless = {**RETURNS, **GLOBALS}.keys() | {"prints"}
    if case.kind == "tool" and case.call == "call":
        return False  # a failing tool is an answer for the agent
    return case.fault not in harmless and (case.call not in AT_THE_END or case.kind != "tracker")


def measure(only: str, parts: int, part: int, seed: int) -> dict[str, Any]:
    chosen = [case for case in cases() if only in case.name]
    random.Random(seed).shuffle(chosen)
    chosen = chosen[part::parts]
    with tempfile.TemporaryDirectory(prefix="agentfw-zoo-", ignore_cleanup_errors=True) as folder:
        site = Path(folder) / "site"
        install(site, chosen)
        sys.path.insert(0, str(site))
        import agentfw_cli.run  # once, not in each child  # noqa: F401
        from agentfw.runs.run import Run  # noqa: F401

        seen = [run(case, Path(folder) / str(number)) for number, case in enumerate(chosen)]
        sys.path.remove(str(site))
    ended = [each.seconds for each, case in zip(seen, chosen, strict=True) if case.hangs and each.code == 130]
    return {
        "plugins": len(seen),
        "right": share_of(sum(not each.wrong for each in seen), len(seen)),
        "hanging": sum(case.hangs for case in chosen),
        "slowest_end": round(max(ended, default=0.0), 2),
        "codes": dict(Counter(str(each.code) for each in seen)),
        "wrong": [asdict(each) for each in seen if each.wrong],
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['plugins']} broken plugins, {result['hanging']} of them hang")
    print(f"as they must be: {result['right']}")
    print(f"exit codes {result['codes']}; the slowest end after SIGINT took {result['slowest_end']} s")
    print_aligned(
        ["wrong", "", ""], [[each["name"], str(each["code"]), "; ".join(each["wrong"])] for each in result["wrong"]]
    )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        only=("", "only those whose name has this in it"),
        parts=(1, "how many parts to divide them into by lot"),
        part=(0, "which of these"),
        seed=(7, "of the lot"),
    ).parse_args(arguments)
    return tell(measure(options.only, options.parts, options.part, options.seed), options.json, show)


if __name__ == "__main__":
    main()
