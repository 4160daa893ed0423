"""The mem0 side of a comparison. It runs in a Python that has mem0, and answers requests in lines of JSON.

mem0 runs with its defaults, thus with Qdrant as its store, except for the embedder, which is the same as on the other
side: hashed words, or vectors that were given. Don't start this script by hand: programs with an option `--mem0` do.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from mem0 import Memory

from agentfw_memory.graph.index.embedders import open_embedder


def serve(folder: Path, dimensions: int) -> None:
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
    answers = sys.stdout
    sys.stdout = sys.stderr
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
            texts, user = request["texts"], request["user"]
            answer = []
            for text, metadata in zip(texts, request["metadata"] or [None] * len(texts), strict=True):
                began = time.perf_counter()
                memory.add(text, user_id=user, infer=False, metadata=metadata)
                answer.append(time.perf_counter() - began)
        else:
            began, worked = time.perf_counter(), time.thread_time()
            found = memory.search(
                request["query"], filters={"user_id": request["user"]}, top_k=request["k"], threshold=0.0
            )
            seconds = [time.perf_counter() - began, time.thread_time() - worked]
            answer = [seconds, found["results"]]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
