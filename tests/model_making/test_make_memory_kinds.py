"""The weights by which a memory tells kinds of sentences apart are the same each time, and tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("safetensors")
pytest.importorskip("scipy")

from make_memory_kinds import main, sentences, trained

from agentfw_memory.writing.kinds import KINDS, probabilities


def test_training_again_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("make_memory_kinds.STEPS", 5)
    for name in ("one", "two"):
        main(["--out", str(tmp_path / name)])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_was_learned_is_told_apart_in_every_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("make_memory_kinds.STEPS", 60)
    texts, kinds = map(list, zip(*[(text, kind) for text, kind, _ in sentences()], strict=True))
    right = probabilities(trained(texts, kinds), texts).argmax(1) == kinds
    assert right.mean() > 0.8
    assert set(kinds) == set(range(len(KINDS)))
