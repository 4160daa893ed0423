"""Embedders: one text, one row, whoever else is in the batch; what isn't a vector is refused; and those on a server."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import Reply, Server, refusal, serving

from agentfw_memory import GraphSettings, NewSkill, SkillGraph
from agentfw_memory.errors import BadInputError, MissingExtraError, StorageError
from agentfw_memory.graph.index import embedders
from agentfw_memory.graph.index.embedders import default_embedder, open_embedder
from agentfw_memory.graph.records import Float32Array

BY_VECTORS = GraphSettings(query_similarity="vectors")


TEXTS = ["Offer the earliest slot first", "Pay the bill", "", "!?", "ñandú 😀", "word " * 3000]


@pytest.mark.parametrize("choice", ["hash:32", "wordllama"])
def test_the_same_text_gives_the_same_row_of_length_one_alone_and_among_others(choice: str) -> None:
    if choice == "wordllama":
        pytest.importorskip("wordllama")
    embedder = open_embedder(choice)
    together = embedder.embed(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), embedder.dimensions)
    assert np.array_equal(together, np.vstack([embedder.embed([text]) for text in TEXTS]))
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimensions)
    rows = embedder.embed(["move my meeting to Friday", "move the meeting to Monday", "the invoice is unpaid"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1


def test_loading_a_model_leaves_the_process_as_it_was() -> None:
    pytest.importorskip("wordllama")
    code = (
        "import logging, sys; from agentfw_memory.graph.index.embedders import open_embedder;"
        "open_embedder('wordllama').embed(['a']); print(logging.getLogger().handlers, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[] False\n", "")


def test_the_default_is_the_best_that_is_installed_and_says_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_embedder().name.partition(":")[0] == default_embedder()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    assert open_embedder().name == "hash:256"


def test_a_downloaded_multilingual_model_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("needs sentence-transformers, which takes seconds to import")
    snapshot = tmp_path / "models--intfloat--multilingual-e5-small" / "snapshots" / "1"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    before = default_embedder()
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")

    assert (before, default_embedder()) == ("wordllama", "sentence-transformers")


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wordllama", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    embedders._wordllama.cache_clear()

    with pytest.raises(MissingExtraError) as missing:
        open_embedder("wordllama")
    assert missing.value.fix.endswith('[memory]"')
    with pytest.raises(MissingExtraError, match="sentence_transformers") as missing:
        open_embedder("sentence-transformers")
    assert missing.value.fix.endswith('[embedders]"')


@pytest.mark.parametrize("choice", ["glove", "hash:0", "wordllama:512"])
def test_an_unknown_choice_is_refused_in_words(choice: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        open_embedder(choice)
    assert refusal.value.fix


def lengths(texts: Sequence[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


def test_a_callable_is_measured_and_its_rows_get_length_one() -> None:
    embedder = open_embedder(lengths)
    assert (embedder.name, embedder.dimensions) == ("callable:lengths", 2)
    assert embedder.embed(["four", ""]) == pytest.approx(np.array([[4.0, 1.0], [0.0, 17**0.5]]) / 17**0.5)
    assert open_embedder(embedder) is embedder


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda texts: [[float("nan"), 1.0] for _ in texts], "NaN"),
        (lambda texts: [1.0 for _ in texts], r"shape \(1,\)"),
        (lambda texts: [[1.0]] * (len(texts) + 1), r"shape \(2, 1\)"),
        (lambda texts: "vector", "no rows of numbers"),
    ],
)
def test_what_is_no_vector_is_refused(function: Callable[[Sequence[str]], Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        open_embedder(function)


class Asymmetric:
    """An embedder that was trained to read different words before queries and before passages."""

    name, version, dimensions = "asymmetric", "1", 2

    def embed(self, texts: Sequence[str]) -> Float32Array:
        return np.array([[1.0, 0.0] if "tea" in text else [0.0, 1.0] for text in texts], np.float32)

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        return np.array([[1.0, 0.0] if "drink" in text else [0.0, 1.0] for text in texts], np.float32)


def test_an_embedder_may_tell_queries_from_passages() -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder=Asymmetric(), settings=BY_VECTORS) as graph:
        for text in ("green tea", "a walk", "a drink"):
            graph.add(owner="ana", text=text)

        assert graph.recall("drink", user="ana")[0].skill.text == "green tea"


def test_all_of_a_long_text_is_embedded_though_a_model_reads_a_few_pages() -> None:
    def first_pages(texts: Sequence[str]) -> Float32Array:
        return np.array([[1.0, 40.0 * ("ferry" in text[:20_000])] for text in texts], np.float32)

    long = f"{'It rained again. ' * 3_000}The ferry leaves at nine."
    with SkillGraph.open(":memory:", tenant="t", embedder=first_pages, settings=BY_VECTORS) as graph:
        for text in (long, "another day", "one more day"):
            graph.add(owner="ana", text=text)

        assert graph.recall("when does the ferry leave?", user="ana")[0].skill.text == long


# On a server: batches, and what happens when the server is wrong or gone


def hashed(texts: list[str]) -> Any:
    return open_embedder("hash:32").embed(texts).tolist()


def vectors(body: dict[str, Any], of: Callable[[list[str]], Any] = hashed) -> Reply:
    """What a server answers, in another order than it was asked."""
    rows = [{"index": place, "embedding": row} for place, row in enumerate(of(body["input"]))]
    return Reply({"data": rows[::-1]}, headers={"connection": "close"})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("httpx")
    monkeypatch.setattr(embedders, "PAUSE", 0.001)
    with serving(vectors) as (address, running):
        monkeypatch.setenv(embedders.URL, address)
        yield running


def test_texts_are_sent_in_batches(server: Server) -> None:
    texts = [f"text {place}" for place in range(150)]
    embedder = open_embedder("http:model")
    server.bodies.clear()

    rows = embedder.embed(texts)

    assert [len(body["input"]) for body in server.bodies] == [64, 64, 22]
    assert rows == pytest.approx(open_embedder("hash:32").embed(texts), abs=1e-6)
    assert np.array_equal(embedder.embed(texts[::-1]), rows[::-1])


def test_a_graph_follows_its_server(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(embedders.KEY, "a key")
    with SkillGraph.open(tmp_path / "s.db", tenant="t", embedder="http:model") as graph:
        graph.add(owner="ana", text="offer the earliest slot")

    with serving(vectors) as (address, other):
        monkeypatch.setenv(embedders.URL, f"{address}/")
        with SkillGraph.open(tmp_path / "s.db", tenant="t") as graph:
            assert [hit.skill.text for hit in graph.recall("slot", user="ana")] == ["offer the earliest slot"]

    assert {headers["authorization"] for headers in server.headers + other.headers} == {"Bearer a key"}
    assert b"a key" not in (tmp_path / "s.db").read_bytes()


def test_no_connection_is_left_open_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx")
    code = "from agentfw_memory.graph.index.embedders import open_embedder\nopen_embedder('http:model').embed(['a'])"

    with serving(lambda body: Reply(vectors(body).body)) as (address, _):
        monkeypatch.setenv(embedders.URL, address)
        words = [sys.executable, "-W", "default::ResourceWarning", "-c", code]
        ended = subprocess.run(words, capture_output=True, text=True, check=True)

    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda texts: [[float("nan")] * 32 for _ in texts], "NaN"),
        (lambda texts: [[1.0] * (32 - place) for place, _ in enumerate(texts)], "3 vectors"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_stored(server: Server, answer: Any, problem: str) -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder="http:model") as graph:
        server.script = (lambda body: vectors(body, answer),)

        with pytest.raises(BadInputError, match=problem):
            graph.add_all(NewSkill("ana", f"text {place}") for place in range(3))

        assert graph.admin.stats().nodes["skill"] == 0


def test_a_busy_server_is_asked_again_and_one_that_goes_leaves_nothing_half_written(server: Server) -> None:
    skills = [NewSkill("ana", f"text {place}") for place in range(100)]
    with SkillGraph.open(":memory:", tenant="t", embedder="http:model") as graph:
        server.bodies.clear()
        server.script = (vectors, refusal(500, "gone"))
        with pytest.raises(StorageError, match="answered 500"):
            graph.add_all(skills)
        assert graph.admin.stats().nodes["skill"] == 0

        server.bodies.clear()
        server.script = (refusal(503, "busy"), refusal(429, "busy"), vectors)
        graph.add_all(skills)
        assert graph.admin.stats().nodes["skill"] == 100


def test_an_address_that_nobody_listens_on_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("httpx")
    monkeypatch.setattr(embedders, "PAUSE", 0.001)
    monkeypatch.setenv(embedders.URL, "http://127.0.0.1:1/v1")
    with pytest.raises(StorageError, match="doesn't answer"):
        open_embedder("http:model")

    monkeypatch.delenv(embedders.URL)
    with pytest.raises(BadInputError, match=embedders.URL):
        open_embedder("http:model")
