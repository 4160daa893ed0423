"""The word index beside SQLite's full-text search (FTS5): how fast texts are added and found.

    python benchmarks/memory_words.py
    python benchmarks/memory_words.py --texts 5000 --queries 20

FTS5 is in a file in WAL mode, with its Porter stemmer, ranked by its bm25(), and restricted to one tenant and to what
a user may see, as a recall needs it. The word index is in memory. A process loads it from the store, where it was
saved. Before it was ever saved, it is built from the texts.

FTS5 ranks every text that has one of a query's words. So queries are asked twice: as drawn, with words that most texts
have, and with words only that are in fewer than one in a hundred texts, which suits it best.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, tell, timed
from agentfw_benchmarks.skill_texts import Texts
from agentfw_memory.graph.index.word_index import BLOCK, SHARED, WordIndex
from agentfw_memory.graph.index.word_index_state import load_words, save_words
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.sqlite import SqliteStore
from agentfw_memory.graph.text.words import tokens

K = 10
RARE = 0.01
"""A rare word is in a smaller share of the texts."""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    texts, draw = Texts(options.seed), random.Random(options.seed)
    stored = [
        (number, texts.text(), SHARED if draw.random() < 0.8 else 1 + number % 100)
        for number in range(1, options.texts + 1)
    ]
    asked = [(texts.text(), 1 + draw.randrange(100)) for _ in range(options.queries)]
    rare = rare_words([text for _, text, _ in stored], asked)
    index = WordIndex()
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "words.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, part UNINDEXED, tokenize = 'porter')")

        def add_row(number: int, text: str, part: int) -> None:
            connection.execute("INSERT INTO words (rowid, text, part) VALUES (?, ?, ?)", (number, text, part))

        def search(query: str, reader: int) -> None:
            match = " OR ".join(f'"{word}"' for word in dict.fromkeys(tokens(query)))
            sql = "SELECT rowid FROM words WHERE words MATCH ? AND part IN (0, ?) ORDER BY bm25(words), rowid LIMIT ?"
            connection.execute(sql, (match, reader, K)).fetchall()

        bulk = len(stored) - options.queries
        result: dict[str, Any] = {"texts": len(stored), "queries": len(asked)}
        began = time.thread_time()
        connection.execute("BEGIN")
        for row in stored[:bulk]:
            add_row(*row)
        connection.execute("COMMIT")
        loaded = {"FTS5": time.thread_time() - began}
        began = time.thread_time()
        for row in stored[:bulk]:
            index.put(*row)
        loaded["word index"] = time.thread_time() - began
        loaded["word index, saved"] = saved_and_loaded(index, Path(folder) / "skills.db", result)
        result["seconds to load"] = loaded
        result["ms of an add"] = {
            "FTS5": milliseconds(lambda row: add_row(*row), stored[bulk:]),
            "word index": milliseconds(lambda row: index.put(*row), stored[bulk:]),
        }
        for what, questions in (("a search", asked), ("a search for rare words", rare)):
            result[f"ms of {what}"] = {
                "FTS5": milliseconds(lambda one: search(*one), questions),
                "word index": milliseconds(lambda one: index.question(*one).best(K), questions),
            }
        connection.close()
    return result


def rare_words(texts: Sequence[str], asked: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The same queries with their rare words only, without those that have none."""
    counts = Counter(word for text in texts for word in set(text.split()))
    found = [
        (" ".join(word for word in query.split() if 0 < counts[word] < RARE * len(texts)), reader)
        for query, reader in asked
    ]
    return [one for one in found if one[0]]


def saved_and_loaded(index: WordIndex, path: Path, result: dict[str, Any]) -> float:
    """Save all blocks, then one block again, and return the seconds of CPU to load all of them."""
    store = SqliteStore.open(path, tenant="team")
    rows = GraphRows(store)
    number = int(index.numbers()[0])
    for what in ("all blocks", "one block"):
        index.touched[number // BLOCK] = 1
        began = time.thread_time()
        assert save_words(index, store.head().counter, rows)
        result[f"seconds to save {what}"] = time.thread_time() - began
    began = time.thread_time()
    found = load_words(rows)
    taken = time.thread_time() - began
    store.close()
    assert found is not None
    assert len(found[0]) == len(index)
    result["MB"] = path.stat().st_size / 1e6
    return taken


def milliseconds(call: Callable[[Any], object], inputs: Sequence[Any]) -> dict[str, float]:
    """Milliseconds of CPU for an input."""
    taken = [1000 * timed(call, one, clock=time.thread_time) for one in inputs]
    return {"p50": float(np.median(taken)), "p95": float(np.quantile(taken, 0.95))}


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, texts=100_000, queries=200, seed=7).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
