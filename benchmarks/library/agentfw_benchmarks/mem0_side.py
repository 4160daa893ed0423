"""mem0 as the other side of a comparison, in its own process and its own environment.

It is controlled by lines of JSON, so that the libraries of the two sides don't affect each other:

    python -m venv /tmp/mem0 && /tmp/mem0/bin/pip install "mem0ai==2.2.1"
    python benchmarks/skill_graph_add.py --mem0 /tmp/mem0/bin/python
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .places import BENCHMARKS, ROOT


class Mem0:
    """mem0 with its default store (Qdrant), `infer=False`, telemetry off. Texts are embedded as for the graph."""

    def __init__(self, python: str, folder: Path, dimensions: int = 384) -> None:
        environment = {
            **os.environ,
            "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(folder),
            "OPENAI_API_KEY": "unused",
            "PYTHONPATH": str(ROOT / "memory"),
        }
        words = [python, str(BENCHMARKS / "skill_graph_mem0.py"), str(folder), str(dimensions)]
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

    def know(self, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        """Give the vectors of texts, which are then not embedded."""
        self.ask(do="know", texts=list(texts), vectors=[list(map(float, vector)) for vector in vectors])

    def fill(self, texts: Sequence[str], users: Sequence[str]) -> None:
        """Put many in at once, past mem0's own `add`."""
        self.ask(do="fill", texts=list(texts), users=list(users))

    def add(self, texts: Sequence[str], user: str, metadata: Sequence[Mapping[str, Any]] = ()) -> list[float]:
        """Seconds that each add took."""
        return list(self.ask(do="add", texts=list(texts), user=user, metadata=list(metadata)))

    def search(self, query: str, user: str, k: int) -> tuple[tuple[float, float], list[str]]:
        """Seconds by the clock and of CPU, and the texts that were found."""
        (clock, worked), found = self.ask(do="search", query=query, user=user, k=k)
        return (clock, worked), [one["memory"] for one in found]

    def memories(self, query: str, user: str, k: int) -> list[dict[str, Any]]:
        """What was found, as mem0 returns it: with id, score and metadata."""
        return list(self.ask(do="search", query=query, user=user, k=k)[1])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
