"""How quickly `agentfw view` reads, lists and searches many episodes.

    python benchmarks/view_size.py
    python benchmarks/view_size.py --episodes 1000 --json

Each episode has twenty turns of some sixty words read and forty said, with two calls that were refused in every
hundredth. Required with 100,000: an index within 300 s of one core and 500 MB, the first page within 0.3 s, a search
within 0.5 s. Times are CPU seconds, because other programs may use the machine, and for pages also what a client waits.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from agentfw import Episode, Message, Task, Turn
from agentfw.episode import Call, Event
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, tell
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index

TURNS, READ, SAID, EACH = 20, 60, 40, 1000
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "ou") for c in ("ra", "lin", "mot", "ver")]
WORDS += [one + other for one in WORDS for other in WORDS[:80]]
PAGES = {
    "first page": "/",
    "failures": "/?failure=refused",
    "by reward": "/?sort=reward&order=up",
    "last page": "/?page=999999",
    "search, rare": f"/?text={WORDS[-7]}",
    "search, common": f"/?text={WORDS[0]}",
    "search, phrase": "/?text=%22the+dentist+at+nine%22",
    "search and filter": f"/?text={WORDS[1]}&failure=refused&sort=reward",
}


def said(dice: random.Random, count: int) -> str:
    """Words, some of them much more often than others."""
    return " ".join(WORDS[int(len(WORDS) * dice.random() ** 4)] for _ in range(count))


def episode(number: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The lines of an episode in both journals."""
    dice = random.Random(number)
    made = Episode(Task(index, number, user=f"user-{number % 200}"), "inbox", finish="finished", ended=TURNS)
    made.messages.append(Message("system", "You keep somebody's inbox."))
    for turn in range(TURNS):
        made.messages.append(Message("user", said(dice, READ)))
        call = Call(dice.choice(["search", "open_message", "write"]), {"text": said(dice, 3)}, f"{turn}")
        text = said(dice, SAID)
        shown = tuple(range(len(made.messages)))
        made.turns.append(Turn(turn, turn, turn + 0.5, shown=shown, text=text, calls=(call,), count=SAID, version="v1"))
        made.messages.append(Message("assistant", text, (call,)))
        made.events.append(Event(turn, "seen", "", {"events": []}))
        made.events.append(Event(turn, "intervention", call.name, {**call.arguments, "id": call.id}))
        if number % 100 == 0 and turn < 2:
            made.events.append(Event(turn, "refused", call.name, {"reason": "the dentist at nine", "id": call.id}))
    used = {"prompt": None, "cached": None, "sampled": None, "cost": 0.0}
    reward = dice.random()
    metrics = {
        "episode": made.id,
        "task": f"{made.task.user}/{number}/{index}/0",
        "user": made.task.user,
        "reward": reward,
        "utility": reward,
        "outcome": {"balanced": reward},
        "headline_by_round": [],
        "turns": TURNS,
        "tokens": TURNS * SAID,
        "usage": used,
        "judged": used,
        "failures": 0,
        "finish": "finished",
        "scores": [["utility", "base", reward, None, None, 1.0]],
    }
    return made.to_record(), metrics


def write(runs: Path, episodes: int) -> int:
    """Write runs of a thousand episodes. Returns their size."""
    for run in range(-(-episodes // EACH)):
        folder = runs / f"2026-11-21-inbox-{run:08x}"
        folder.mkdir(parents=True)
        spec = {"environment": {"name": "inbox"}, "policy": {"name": "scripted"}, "memories": [], "rewards": []}
        about = {"format": 3, "created": f"2026-11-21T{run % 24:02}:00:00+00:00", "episodes": EACH, "updates": 0}
        (folder / "run.json").write_text(json.dumps({**about, "headline": "balanced", "spec": spec}))
        with (folder / "episodes.jsonl").open("w") as records, (folder / "metrics.jsonl").open("w") as metrics:
            for index in range(min(EACH, episodes - run * EACH)):
                for file, line in zip((records, metrics), episode(run * EACH + index, index), strict=True):
                    file.write(json.dumps(line, separators=(",", ":")) + "\n")
    return sum(file.stat().st_size for file in runs.rglob("*.jsonl"))


async def ask(index: Index) -> dict[str, Any]:
    """Ask for each page three times. The best is told."""
    found = {}
    transport = httpx.ASGITransport(app=Viewer(index, fresh_host(builtins=True)).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for name, path in PAGES.items():
            times = []
            for _ in range(3):
                began, worked = time.perf_counter(), time.process_time()
                answer = await client.get(path)
                answer.raise_for_status()
                times.append((time.process_time() - worked, time.perf_counter() - began))
            found[name] = {"cpu": round(min(times)[0], 3), "waited": round(min(one for _, one in times), 3)}
    return found


def measure(episodes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        runs = Path(name)
        size = write(runs, episodes)
        index = Index(runs)
        began = time.process_time()
        index.refresh()
        seconds = time.process_time() - began
        with index.reading() as rows:
            [count] = rows.execute("SELECT count(*) FROM episodes").fetchone()
            rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert count == episodes
        return {
            "episodes": episodes,
            "journals_mb": round(size / 1e6),
            "index_cpu_seconds": round(seconds, 1),
            "index_mb": round((runs / Index.file).stat().st_size / 1e6, 1),
            "pages": asyncio.run(ask(index)),
            "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
        }


def show(result: dict[str, Any]) -> None:
    print(f"{result['episodes']:,} episodes, {result['journals_mb']:,} MB of journals")
    print(f"index: {result['index_cpu_seconds']} s of CPU, {result['index_mb']:,} MB")
    for name, times in result["pages"].items():
        print(f"{name:20} {times['cpu']:.3f} s of CPU, {times['waited']:.3f} s waited")
    print(f"memory of the process: {result['memory_mb']:,} MB")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    options = parser.parse_args(arguments)
    return tell(measure(options.episodes), options.json, show)


if __name__ == "__main__":
    main()
