"""The loop of the assistant on a public log: what MovieLens-100k says of memory, rewards and training.

    python plugins/papers/benchmarks/loop_movielens.py --folder loops/movielens
    python plugins/papers/benchmarks/loop_movielens.py --variant A1 --variant C5 --data FOLDER --json

Each user's last six likes become requests, in order: the movie that was liked beside four of nearly the same
popularity. What came before is the log that the preference model is fitted on. A like is a rating of 4 or 5. Tastes are
not known, so the assistant has no more than titles, genres, age and occupation. A random choice has a satisfaction of
0.2. Required: the loop runs, and its table is printed, whatever it says.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Host
from agentfw_benchmarks import Options, bounds_of, print_markdown, shown, tell
from agentfw_benchmarks.movielens import folder, rows
from agentfw_papers.loops import Loop, LoopSpec, Result, read_loop

REQUESTS = 6
EPISODES = {"live": 960, "exam": 960}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, data=("", "directory of ml-100k in RecBole's format; default: downloaded from PyPI"))
    parser.add_argument("--folder", type=Path, default=Path("loops/movielens"), help="directory of the loop")
    parser.add_argument("--variant", action="append", default=[], help="beside Full; default: those of --quick")
    options = parser.parse_args(arguments)
    log = options.folder.resolve().with_name(f"{options.folder.name}-log")
    facts = write_log(folder(options.data), log)
    host = Host.load()
    spec = on_log(read_loop(Path(host.find_spec("loop-assistant").path)), log)
    result = Loop.at(options.folder, spec.chosen(options.variant or spec.quick), seeds=1).do(host)
    tell({**facts, **result.to_record()}, options.json, lambda record: show(facts, result))
    return facts


def show(facts: Mapping[str, int], result: Result) -> None:
    print("  ".join(f"{name}: {count:,}" for name, count in facts.items()))
    table = []
    for row in result.rows:
        beside = shown(bounds_of(row.differences["satisfaction"].difference), "+.3f") if row.differences else ""
        table.append([row.variant, *(f"{row.means[name]:.3f}" for name in ("satisfaction", "judge")), beside])
    print_markdown(["variant", "satisfaction", "judge", "satisfaction beside Full"], table)


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
