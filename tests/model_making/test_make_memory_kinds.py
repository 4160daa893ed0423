"""The weights by which a memory tells kinds of sentences apart are the same each time, and tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("safetensors")

from make_memory_kinds import main, sentences, trained

from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.writing.kinds import KINDS


def test_training_again_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("make_memory_kinds.STEPS", 5)
    for folder in ("one", "two"):
        main(["hash:8", "--out", str(tmp_path / folder)])
    one, two = ((tmp_path / folder / "hash_8.safetensors").read_bytes() for folder in ("one", "two"))
    assert one == two


def test_what_was_learned_is_told_apart_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("make_memory_kinds.STEPS", 60)
    texts, kinds = map(list, zip(*[(text, kind) for text, kind, _ in sentences()], strict=True))
    vectors = open_embedder("hash:8").embed(texts)
    right = trained(texts, kinds, vectors).probabilities(texts, vectors).argmax(1) == kinds
    assert right.mean() > 0.8
    assert set(kinds) == set(range(len(KINDS)))
