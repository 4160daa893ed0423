"""Runs, trainings and replicas that are killed: does it end as if nobody had disturbed it?

    python benchmarks/kills.py runs                        # 50 kills (SIGKILL) at random moments, then resumed
    python benchmarks/kills.py trainings --case bandit --kills 10
    python benchmarks/kills.py agents --kills 2            # a run of 300 agents at once: each has ended, once
    python benchmarks/kills.py replicas --kills 8          # one of two processes of a pool; the run itself goes on
    python benchmarks/kills.py engines                     # nobody is killed: one process, a pool, and the same on Ray
    python benchmarks/kills.py quota                       # a server that has had enough after 900 of 2,813 requests

Required of `runs`, `trainings`, `replicas` and `engines`: the records, figures and versions of an undisturbed run in
one process, to the last byte (`agentfw_benchmarks.kills` says how they are compared). Required of `quota`: no answer
that the policy had given is asked for again.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import random
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agentfw import Run
from agentfw.errors import QuotaEndedError
from agentfw.runs import RunFolder, apply_assignments, parse_spec, read_spec
from agentfw.testing import fresh_host
from agentfw_benchmarks import TESTS, Options, tell
from agentfw_benchmarks.kills import (
    AgentCase,
    Case,
    ReplicaCase,
    RunCase,
    TrainingCase,
    Trial,
    draw,
    trial,
    undisturbed,
)

KINDS: dict[str, type[Case]] = {
    "agents": AgentCase,
    "runs": RunCase,
    "trainings": TrainingCase,
    "replicas": ReplicaCase,
}
KILLED = {"trainings": ["bandit", "memory", "overlapped", "overlapped pool", "language model"], "replicas": ["pool"]}
"""The cases that are killed by default, where these aren't all."""
ENGINES = ("pool", "ray")
ROUND = 3
"""Requests of a round with the quota: list the strategies, update them, decide."""
LETTERS = ["A", "B", "C", "D", "E"]


def killed(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Kill the cases in turn, until so many kills have hit."""
    kind = KINDS[options.what]
    cases = options.case or KILLED.get(options.what) or list(kind.CASES)
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "peft")):
        cases = [case for case in cases if case not in TrainingCase.MODEL]
    alone = {case: "one process" if kind is ReplicaCase else case for case in cases}
    usual = {case: undisturbed(kind, alone[case], folder / f"undisturbed {case}") for case in cases}
    generator, found = random.Random(options.seed), list[Trial]()
    while (left := options.kills - sum(sum(each.hit) for each in found)) > 0:
        case = cases[len(found) % len(cases)]
        # Every third is killed again while it is being resumed, and every one of agents.
        twice = left > 1 and kind is not ReplicaCase and (kind is AgentCase or generator.random() < 1 / 3)
        blows = draw(generator, 2 if twice else 1)
        found.append(trial(kind, case, folder / str(len(found)), usual[case], blows))
        one = found[-1]
        verdict = f"DIFFERENT {one.differences[:5]}" if one.differences else "equal"
        print(f"{case:18}killed with {one.kept} of {usual[case].lines} lines on disk: {verdict}", file=sys.stderr)
    return {
        "kills": sum(sum(each.hit) for each in found),
        "amid the work": sum(0 < kept < usual[each.case].lines for each in found for kept in each.kept),
        options.what: len(found),
        "equal": sum(not each.differences for each in found),
        "seconds undisturbed": {case: round(each.seconds, 2) for case, each in usual.items()},
        "trials": [asdict(each) for each in found],
    }


def engines(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The same training in one process, with two replicas on this machine, and on Ray."""
    cases = options.case or [name for name in ENGINES if name != "ray" or importlib.util.find_spec("ray")]
    usual = undisturbed(TrainingCase, "language model", folder / "one process")
    found: dict[str, Any] = {"records and files": len(usual.left)}
    for case in cases:
        played = TrainingCase(case, folder / case)
        found[f"{case}: different"] = list(played.faults(played.finish(), usual))
    return found


def quota(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """A server answers some requests and then says `insufficient_quota`; the run is resumed with one that goes on.

    The run is the shipped spec `calendar-strategyhub`, with a model that lists its strategies, updates them and decides
    in each conflict, and lists them once more in the first.
    """
    sys.path.insert(0, str(TESTS))
    from chat_server import Reply, completion, refusal, serving, tool_call

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        messages = body["messages"]
        last = max(place for place, message in enumerate(messages) if "conflict: " in str(message["content"]))
        told = re.search(r"round (\d+) of", messages[last]["content"])
        assert told is not None
        number, turn = int(told[1]), sum(message["role"] == "assistant" for message in messages[last:])
        calls: list[tuple[str, dict[str, Any]]] = [
            ("strategy_hub", {"action": "list"}),
            ("strategy_hub", {"action": "update", "strategies": [f"urgent first, as in conflict {number}"]}),
            ("decide", {"accept": LETTERS[number % 5], "ranking": LETTERS}),
        ]
        if number == 1:
            calls.insert(2, calls[0])
        return tool_call(calls[turn][0], **calls[turn][1])

    def limited(requests: int) -> Callable[[dict[str, Any]], Reply]:
        """Answers so many requests, and then none."""
        places = iter(range(requests))

        def reply(body: dict[str, Any]) -> Reply:
            if next(places, None) is None:
                return refusal(429, "You exceeded your current quota.", code="insufficient_quota")
            # It takes a while, when it is already paid for; a refusal takes no time.
            return replace(completion(None, message={"tool_calls": [answer(body)]}), wait=0.1)

        return reply

    host, requests = fresh_host(builtins=True, strict=False), options.users * (options.rounds * ROUND + 1)
    values = read_spec(Path(host.find_spec("calendar-strategyhub").path))
    with serving(limited(options.answered)) as (address, first):
        changes = {"environment": {"rounds": options.rounds}, "policy": {"base_url": address, "model": "m"}}
        spec = apply_assignments(values, {**changes, "episodes": options.users})
        run = Run.create(parse_spec(spec), host, folder)
        try:
            asyncio.run(run.execute())
            raise SystemExit("the quota was never reached: give more users or rounds")
        except QuotaEndedError:
            done = run.folder.done
    with serving(limited(requests)) as (address, second):
        again = Run.open(RunFolder.open(run.folder.path), host, {"policy": {"base_url": address}})
        summary = asyncio.run(again.execute())
    paid = [*first.answered, *second.answered]
    return {
        "requests of the run": requests,
        "answered before the quota ended": len(first.answered),
        "episodes done by then": done,
        "answered after resuming": len(second.answered),
        "asked again although answered": len(paid) - len(set(paid)),
        "turns in the record": summary.turns,
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        kills=50,
        rounds=(32, "of each user, with the quota"),
        users=(29, "with the quota"),
        answered=(900, "requests until the quota ends"),
        seed=7,
    )
    parser.add_argument("what", choices=[*KINDS, "engines", "quota"])
    parser.add_argument("--case", action="append", help="case to kill, may be repeated; default: all")
    options = parser.parse_args(arguments)
    measures = {"engines": engines, "quota": quota}
    with tempfile.TemporaryDirectory() as name:
        return tell(measures.get(options.what, killed)(options, Path(name)), options.json)


if __name__ == "__main__":
    main()
