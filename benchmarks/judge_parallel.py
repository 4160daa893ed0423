"""Seconds of judging groups with a judge that takes 100 ms an answer: one at a time, eight at a time, and from a cache.

    python benchmarks/judge_parallel.py
    python benchmarks/judge_parallel.py --groups 16 --json

Required: eight at a time is at least six times as fast as one, and a warm cache asks for nothing.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, tell
from agentfw_rewardmodels.rubric import Message, RubricJudge

SECONDS = 0.1
REQUIRED = 6.0


class Slow:
    """A judge that thinks for a while."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, conversation: Sequence[Message]) -> str:
        self.asked += 1
        await asyncio.sleep(SECONDS)
        count = conversation[-1]["content"].count("<attempt-")
        return json.dumps({"scores": [{"id": number, "score": number / count} for number in range(1, count + 1)]})


def groups(count: int) -> list[list[list[Message]]]:
    return [
        [
            [{"role": "user", "content": f"question {group}"}, {"role": "assistant", "content": f"answer {sample}"}]
            for sample in range(4)
        ]
        for group in range(count)
    ]


async def judge(count: int, parallel: int, cache: str | Path) -> tuple[float, int]:
    slow = Slow()
    judge = RubricJudge(slow, name="slow", parallel=parallel, cache=cache)
    began = time.perf_counter()
    judgements = await asyncio.gather(*map(judge.judge, groups(count)))
    assert not any(judgement.failure for judgement in judgements)
    return time.perf_counter() - began, slow.asked


def measure(count: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        cache = Path(name) / "judgements.db"
        one, _ = asyncio.run(judge(count, 1, ":memory:"))
        eight, asked = asyncio.run(judge(count, 8, cache))
        warm, again = asyncio.run(judge(count, 8, cache))
    return {
        "groups": count,
        "seconds": {"one at a time": round(one, 3), "eight at a time": round(eight, 3), "warm cache": round(warm, 3)},
        "questions": {"cold": asked, "warm": again},
        "eight against one": round(one / eight, 2),
        "required": REQUIRED,
    }


def show(result: dict[str, Any]) -> None:
    for name, seconds in result["seconds"].items():
        print(f"{name:16} {seconds:8.3f} s")
    print(f"eight against one: {result['eight against one']} (required {REQUIRED})")
    print(f"questions: {result['questions']['cold']} cold, {result['questions']['warm']} with a warm cache")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, groups=64).parse_args(arguments)
    return tell(measure(options.groups), options.json, show)


if __name__ == "__main__":
    main()
