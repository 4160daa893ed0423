"""What both sides of the skill graph's comparisons share: the texts, and mem0 in its own environment.

Both sides get the same texts, and the same vectors from the same hash embedder. mem0 runs in its own process and is
controlled by lines of JSON, so that the libraries of the two sides don't affect each other:

    python -m venv /tmp/mem0 && /tmp/mem0/bin/pip install "mem0ai==2.2.1" faiss-cpu
    python tests/benchmarks/skill_graph_add.py --mem0 /tmp/mem0/bin/python
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw.statistics import bootstrap
from agentfw_memory import NewSkill

DIMENSIONS = 384
EMBEDDER = f"hash:{DIMENSIONS}"
MEMORY = Path(__file__).parents[2] / "memory"


class Texts:
    """Texts of 14 words, some of which come often and most seldom; one seed, one row of texts."""

    def __init__(self, seed: int) -> None:
        self._generator = random.Random(seed)

    def text(self) -> str:
        return " ".join(f"w{min(2999, int(self._generator.paretovariate(0.7)))}" for _ in range(14))

    def skills(self, count: int, *, users: int, shared: float = 0.8) -> list[NewSkill]:
        draw = self._generator
        return [
            NewSkill(
                f"user{draw.randrange(users)}",
                self.text(),
                (f"tool{draw.randrange(50)}",),
                (f"scenario{draw.randrange(200)}",),
                "shared" if draw.random() < shared else "private",
            )
            for _ in range(count)
        ]


class Mem0:
    """mem0 with its FAISS store, `infer=False`, telemetry off."""

    def __init__(self, python: str, folder: Path) -> None:
        environment = {
            **os.environ,
            "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(folder),
            "OPENAI_API_KEY": "unused",
            "PYTHONPATH": str(MEMORY),
        }
        words = [python, str(Path(__file__).with_name("skill_graph_mem0.py")), str(folder)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("mem0 ended; run it by hand to see why")
        return json.loads(line)

    def fill(self, texts: Sequence[str], users: Sequence[str]) -> None:
        """Put many in at once, past mem0's own `add`, which writes all of its file anew for each."""
        self.ask(do="fill", texts=list(texts), users=list(users))

    def add(self, texts: Sequence[str], user: str) -> list[float]:
        """Seconds that each add took."""
        return list(self.ask(do="add", texts=list(texts), user=user))

    def search(self, query: str, user: str, k: int) -> tuple[tuple[float, float], list[str]]:
        """Seconds by the clock and of CPU, and the texts that were found."""
        (clock, worked), found = self.ask(do="search", query=query, user=user, k=k)
        return (clock, worked), found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def timed(call: Callable[..., object], *arguments: Any, **named: Any) -> float:
    """Seconds of wall-clock time."""
    began = time.perf_counter()
    call(*arguments, **named)
    return time.perf_counter() - began


def interval(values: Sequence[float]) -> dict[str, float]:
    """The median with its 95% interval."""
    found = bootstrap(values, statistic=np.median)
    return {"median": found.estimate, "low": found.low, "high": found.high}


def shown(row: dict[str, float], digits: int = 2) -> str:
    return f"{row['median']:,.{digits}f} [{row['low']:,.{digits}f}, {row['high']:,.{digits}f}]"
