"""Embedders: one text, one row, whoever else is in the batch; and what isn't a vector is refused."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.errors import BadInputError, MissingExtraError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.index import embedders
from agentfw_memory.graph.index.embedders import Embedder, default_embedder, open_embedder

MODULES = {"hash:32": "numpy", "wordllama": "wordllama"}


@pytest.fixture(params=MODULES, scope="module")
def embedder(request: pytest.FixtureRequest) -> Embedder:
    pytest.importorskip(MODULES[request.param])
    return open_embedder(request.param)


TEXTS = ["Offer the earliest slot first", "Pay the bill", "", "!?", "ñandú 😀", "word " * 3000]


@pytest.mark.slow
def test_the_same_text_gives_the_same_row_alone_and_among_others(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (len(TEXTS), embedder.dimensions)
    assert np.array_equal(together, np.vstack([embedder.embed([text]) for text in TEXTS]))
    assert np.array_equal(together[::-1], embedder.embed(TEXTS[::-1]))


@pytest.mark.slow
def test_every_row_has_length_one_also_that_of_an_empty_text(embedder: Embedder) -> None:
    assert np.linalg.norm(embedder.embed(TEXTS), axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_texts_that_share_words_are_more_alike(embedder: Embedder) -> None:
    rows = embedder.embed(["move my meeting to Friday", "move the meeting to Monday", "the invoice is unpaid"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.1


def test_a_model_knows_that_different_words_mean_the_same() -> None:
    pytest.importorskip("wordllama")
    rows = open_embedder("wordllama").embed(["a physician", "a doctor", "a bicycle"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


@pytest.mark.slow
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


def test_a_multilingual_model_that_was_downloaded_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("choice", ["glove", "hash:0", "hash:-1", "hash:many", "wordllama:512"])
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
        (lambda texts: [[float("inf"), 1.0] for _ in texts], "infinity"),
        (lambda texts: [1.0 for _ in texts], r"shape \(1,\)"),
        (lambda texts: [[] for _ in texts], r"shape \(1, 0\)"),
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
    settings = GraphSettings(query_similarity="vectors")
    with SkillGraph.open(":memory:", tenant="t", embedder=Asymmetric(), settings=settings) as graph:
        for text in ("green tea", "a walk", "a drink"):
            graph.add(owner="ana", text=text)

        assert graph.recall("drink", user="ana")[0].skill.text == "green tea"


def test_all_of_a_long_text_is_embedded_though_a_model_reads_a_few_pages() -> None:
    def first_pages(texts: Sequence[str]) -> Float32Array:
        return np.array([[1.0, 40.0 * ("ferry" in text[:20_000])] for text in texts], np.float32)

    long = f"{'It rained again. ' * 3_000}The ferry leaves at nine."
    settings = GraphSettings(query_similarity="vectors")
    with SkillGraph.open(":memory:", tenant="t", embedder=first_pages, settings=settings) as graph:
        for text in (long, "another day", "one more day"):
            graph.add(owner="ana", text=text)

        assert graph.recall("when does the ferry leave?", user="ana")[0].skill.text == long
