"""LangGraph's own tests of its stores, with the skill graph in their place.

    git clone https://github.com/langchain-ai/langgraph
    pip install pytest-asyncio pytest-mock pytest-retry
    python benchmarks/langgraph_suite.py --suite langgraph

It runs the tests of the store in memory and of the SQLite store, and prints how many pass. Tests that are about
something else than what a store does are named in EXCEPTIONS, with the reason. Any other failure makes the exit code 1.
LangGraph is under the MIT licence, and nothing of it is in this repository.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agentfw_benchmarks.langgraph_plugin
from agentfw_benchmarks import Options, tell

FILES = (
    "libs/checkpoint/tests/test_store.py",
    "libs/checkpoint-sqlite/tests/test_store.py",
    "libs/checkpoint-sqlite/tests/test_async_store.py",
    "libs/checkpoint-sqlite/tests/test_ttl.py",
)
HELPER = "a private helper of their SQL"
SCORE = "their score is the cosine of the best field; ours adds up words, vectors and what the graph knows of the item"
EXCEPTIONS = {
    "test_vector_store_initialization": "looks for the vector table in their SQLite file",
    "test_escape_glob_literal": HELPER,
    "test_namespace_match_pattern": HELPER,
    "test_list_namespaces_prefix_uses_indexable_condition": HELPER,
    "test_scores": SCORE,
    "test_embed_with_path": SCORE,
    "test_no_running_loop": "their async store refuses calls that block an event loop; ours answers them",
    "test_ttl_override_default": "their SQLite store has `refresh_on_read` off by default; LangGraph documents on",
}
"""Tests that needn't pass, and why."""


def measure(suite: Path) -> dict[str, Any]:
    library = str(Path(agentfw_benchmarks.__file__).parents[1])
    files = [suite / file for file in FILES if (suite / file).is_file()]
    if not files:
        sys.exit(f"{suite} has none of {', '.join(FILES)}; clone https://github.com/langchain-ai/langgraph into it")
    rows, failed = [], []
    for file in files:
        ended = _run(file, library)
        wrong = [one for one in ended if one["outcome"] == "failed"]
        failed += [{**one, "why": EXCEPTIONS.get(_name(one["test"]), "")} for one in wrong]
        rows.append(
            {
                "file": str(file.relative_to(suite)),
                "passed": sum(one["outcome"] == "passed" for one in ended),
                "excepted": sum(_name(one["test"]) in EXCEPTIONS for one in wrong),
                "failed": sum(_name(one["test"]) not in EXCEPTIONS for one in wrong),
            }
        )
    return {"files": rows, "not passed": failed}


def _run(file: Path, library: str) -> list[dict[str, str]]:
    """Run the tests of a file in its own folder, and return how each one ended at last."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.jsonl"
        results.touch()
        path = os.pathsep.join(filter(None, [library, os.environ.get("PYTHONPATH", "")]))
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-p", "agentfw_benchmarks.langgraph_plugin", "-q", "-W", "ignore"),
                *("-p", "no:cacheprovider", f"tests/{file.name}"),
            ],
            cwd=file.parents[1],
            env={**os.environ, "PYTHONPATH": path, "SUITE_RESULTS": str(results), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        last = {one["test"]: one for one in map(json.loads, results.read_text().splitlines())}
        if not last:
            sys.exit(f"no test of {file} ran:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        return list(last.values())


def _name(test: str) -> str:
    return re.sub(r"\[.*", "", test.split("::")[-1])


def show(result: dict[str, Any]) -> None:
    print(f"{'tests of LangGraph':52}{'passed':>8}{'excepted':>10}{'failed':>8}")
    for row in result["files"]:
        print(f"{row['file']:52}{row['passed']:8}{row['excepted']:10}{row['failed']:8}")
    for one in result["not passed"]:
        print(f"  {one['test']}: {one['why'] or one['reason']}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, suite=(str, "a checkout of LangGraph")).parse_args(arguments)
    result = tell(measure(Path(options.suite).resolve()), options.json, show)
    if any(row["failed"] for row in result["files"]):
        sys.exit(1)
    return result


if __name__ == "__main__":
    main()
