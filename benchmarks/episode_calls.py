"""How many functions agentfw calls for one episode of `agentfw run calendar`, and in how many files.

The one rule: it counts calls and takes no times, so that every machine gives the same figure. Counted are the calls of
functions in agentfw's packages, in the thread of the run, by which a run with two episodes exceeds one with a single
episode: playing, recording and scoring it, and what simple players would have got. What happens within the policy's
`generate`, or draws something (a report, a chart), isn't counted.

    python benchmarks/episode_calls.py
    python benchmarks/episode_calls.py --most 20 --json

A first run, which isn't counted, imports and caches what later runs find there.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from inspect import CO_COROUTINE, CO_GENERATOR
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from agentfw import Host, Run
from agentfw.runs import parse_spec, read_spec
from agentfw_benchmarks import ROOT, Options, print_aligned, tell

POLICY = "linear"
PACKAGES = tuple(str(ROOT / top) + "/" for top in ("framework", "plugins/agentfw_plugins", "memory", "rewardmodels"))
DRAWING = tuple(str(ROOT / "framework/agentfw" / place) for place in ("report/", "out.py", "runs/results/"))
LIMITS = {"calls": 14_000, "files": 60}


class Calls:
    """Counts what is called. What is called within `generate` or drawing doesn't count."""

    def __init__(self) -> None:
        self.found: Counter[CodeType] = Counter()
        self._within = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        left_out = code.co_name == "generate" or code.co_filename.startswith(DRAWING)
        if left_out and event in ("call", "return"):
            self._within += 1 if event == "call" else -1
        elif event == "call" and not self._within and code.co_filename.startswith(PACKAGES) and _begins(frame):
            self.found[code] += 1


def _begins(frame: FrameType) -> bool:
    """Whether a function begins here. Else one goes on that has waited, or makes a list."""
    code = frame.f_code
    if code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<module>"):
        return False
    # The argument of the instruction RESUME is 0 where a function begins.
    return not code.co_flags & (CO_GENERATOR | CO_COROUTINE) or code.co_code[frame.f_lasti + 1] == 0


def counted(host: Host, episodes: int) -> Counter[CodeType]:
    """What is called in a run with so many episodes."""
    calls, spec = Calls(), {**read_spec(Path(host.find_spec("calendar").path)), "policy": POLICY, "episodes": episodes}
    with tempfile.TemporaryDirectory() as folder:
        sys.setprofile(calls)
        try:
            asyncio.run(Run.create(parse_spec(spec), host, Path(folder)).execute())
        finally:
            sys.setprofile(None)
    return calls.found


def measure(most: int) -> dict[str, Any]:
    host = Host.load()
    counted(host, 2)
    once = counted(host, 1)
    episode = counted(host, 2) - once
    places = {code: str(Path(code.co_filename).relative_to(ROOT)) for code in episode}
    found = {"calls": episode.total(), "files": len(set(places.values()))}
    framework = sum(count for code, count in episode.items() if places[code].startswith("framework"))
    functions = [
        {"calls": count, "function": f"{places[code]} {code.co_qualname}"} for code, count in episode.most_common(most)
    ]
    within = all(found[name] <= LIMITS[name] for name in LIMITS)
    return {"limits": LIMITS, "within": within, **found, "framework": framework, "functions": functions}


def show(result: dict[str, Any]) -> None:
    for name, limit in result["limits"].items():
        print(f"{name}: {result[name]:,}; required: at most {limit:,}")
    print(f"calls in the framework: {result['framework']:,}; the others are of the world, its rewards and players")
    print_aligned(["function", "calls"], [[row["function"], f"{row['calls']:,}"] for row in result["functions"]])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, most=(10, "functions to list")).parse_args(arguments)
    return tell(measure(options.most), options.json, show)


if __name__ == "__main__":
    main()
