"""The weights by which a memory tells kinds of sentences apart are the same each time, and tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("safetensors")
pytest.importorskip("scipy")

from make_memory_kinds import main, sentences
from safetensors.numpy import load_file

from agentfw_memory.writing.kinds import KINDS, WEIGHTS, probabilities, weights_of


@pytest.mark.nightly
def test_training_again_gives_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("make_memory_kinds.STEPS", 5)
    some = sentences()[::20]
    monkeypatch.setattr("make_memory_kinds.sentences", lambda: some)
    for name in ("one", "two"):
        main(["--out", str(tmp_path / name)])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_what_was_learned_is_told_apart_in_every_language() -> None:
    some = sentences()[::10]
    found = probabilities(
        weights_of(load_file(WEIGHTS)), [one.text for one in some], [one.around for one in some]
    ).argmax(1)
    assert (found == [one.kind for one in some]).mean() > 0.9
    assert {one.kind for one in some} == set(range(len(KINDS)))
