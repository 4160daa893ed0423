"""mem0 as the other side of a comparison: this file runs in a Python that has it, and answers lines of JSON.

So the libraries of the two sides don't affect each other. mem0 has its defaults, thus Qdrant as its store, but
`infer=False` and no telemetry. Its embedder is that of the other side: hashed words, or vectors that were given.

    python -m venv /tmp/mem0 && /tmp/mem0/bin/pip install "mem0ai==2.2.1"
    python benchmarks/skill_graph_recall.py --mem0 /tmp/mem0/bin/python
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Mem0:
    def __init__(self, python: str, folder: Path, dimensions: int = 384) -> None:
        environment = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder), "OPENAI_API_KEY": "unused"}
        environment["PYTHONPATH"] = str(Path(__file__).parents[3] / "memory")
        words = [python, __file__, str(folder), str(dimensions)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **environment})

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

    def add(self, texts: Sequence[str], user: str) -> None:
        self.ask(do="add", texts=list(texts), user=user)

    def search(self, query: str, user: str, k: int) -> tuple[tuple[float, float], list[str]]:
        """Seconds by the clock and of CPU, and the texts that were found."""
        (clock, worked), found = self.ask(do="search", query=query, user=user, k=k)
        return (clock, worked), [one["memory"] for one in found]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(folder: Path, dimensions: int) -> None:
    from mem0 import Memory  # type: ignore[import-not-found]

    from agentfw_memory.graph.index.embedders import open_embedder

    hashed, given = open_embedder(f"hash:{dimensions}"), dict[str, list[float]]()

    class Embedding:
        config = None

        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            return given[text] if text in given else [float(value) for value in hashed.embed([text])[0]]

        def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    store = {"collection_name": "skills", "path": str(folder / "qdrant"), "embedding_model_dims": dimensions}
    memory = Memory.from_config(
        {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": str(folder / "history.db")}
    )
    memory.embedding_model = Embedding()
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = None
        if request["do"] == "know":
            given.update(zip(request["texts"], request["vectors"], strict=True))
        elif request["do"] == "fill":
            texts, users = request["texts"], request["users"]
            payloads = [{"data": text, "user_id": user} for text, user in zip(texts, users, strict=True)]
            ids = [f"{place:032x}" for place in range(len(texts))]
            memory.vector_store.insert(hashed.embed(texts).tolist(), payloads, ids)
        elif request["do"] == "add":
            for text in request["texts"]:
                memory.add(text, user_id=request["user"], infer=False)
        else:
            began, worked = time.perf_counter(), time.thread_time()
            filters = {"user_id": request["user"]}
            found = memory.search(request["query"], filters=filters, top_k=request["k"], threshold=0.0)
            answer = [[time.perf_counter() - began, time.thread_time() - worked], found["results"]]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
