"""Trains the classifier by which a memory without a model tells lasting sentences from others.

    python model_making/make_memory_kinds.py

The sentences are in memory_sentences.txt: five kinds in twelve languages, written for this. The same sentences always
give the same weights. A quarter of the lines is held out first, to print how often it is right.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_array

from agentfw_memory.writing.kinds import BUCKETS, KINDS, WEIGHTS, grams, probabilities

SENTENCES = Path(__file__).parent / "memory_sentences.txt"
ENDS = 3
"""Number of ends that each beginning in a line of parts is joined with."""
FRAMED = 2
"""Number of facts of its language that a beginning is joined with whose end is `*`. What decides then is the beginning:
each of these facts is there without it, too."""
STEPS, RATE, DECAY = 250, 8.0, 1e-5
"""Steps of the descent, its rate, and the weight of the squared weights in the loss."""

Array = NDArray[np.float32]


def sentences() -> list[tuple[str, int, int]]:
    """Return the sentences, each with the place of its kind and of its line."""
    found, lines = [], SENTENCES.read_text("utf-8").splitlines()
    facts: dict[str, list[str]] = {}
    for line in lines:
        head, _, rest = line.partition(": ")
        if head.endswith(" fact"):
            facts.setdefault(head[:2], []).extend(rest.split(" / "))
    for number, line in enumerate(lines):
        if not line.startswith("#"):
            head, _, rest = line.partition(": ")
            beginnings, _, ends = rest.partition(" ++ ")
            some = [one.strip() for one in beginnings.split(" / ")]
            if ends:
                count = FRAMED if ends == "*" else ENDS
                tails, gap = (
                    facts[head[:2]] if ends == "*" else ends.split(" / "),
                    "" if head[:2] in ("zh", "ja") else " ",
                )
                some = [
                    f"{one}{gap}{tails[(count * place + step) % len(tails)].strip()}"
                    for place, one in enumerate(some)
                    for step in range(count)
                ]
            found += [(one, [*KINDS].index(head.split()[1]), number) for one in some]  # type: ignore[arg-type]
    return found


def trained(texts: Sequence[str], kinds: Sequence[int]) -> Array:
    """Return the weights with the least cross-entropy, each kind counting alike."""
    found = [grams(text) for text in texts]
    sizes = np.array([len(some) for some in found])
    # The last column is 1 for every sentence.
    places = np.concatenate([[*some, BUCKETS] for some in found]), np.concatenate([[0], (sizes + 1).cumsum()])
    values = np.concatenate([[*[1.0 / np.sqrt(size)] * size, 1.0] for size in sizes.tolist()])
    rows = csr_array((values.astype(np.float32), *places), shape=(len(texts), BUCKETS + 1))
    columns = csr_array(rows.T)
    wanted = np.eye(len(KINDS), dtype=np.float32)[list(kinds)]
    share = (1.0 / (wanted.sum(0) * len(KINDS)))[list(kinds)][:, None]
    weights = np.zeros((BUCKETS + 1, len(KINDS)), np.float32)
    speed = np.zeros_like(weights)
    for _ in range(STEPS):
        ahead = weights + 0.9 * speed
        score = rows @ ahead
        score = np.exp(score - score.max(1, keepdims=True))
        slope = columns @ ((score / score.sum(1, keepdims=True) - wanted) * share) + DECAY * ahead
        speed = 0.9 * speed - RATE * slope.astype(np.float32)
        weights += speed
    return weights


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="Output file.")
    options = parser.parse_args(arguments)
    texts, kinds, lines = map(list, zip(*sentences(), strict=True))
    tested = np.array(lines) % 4 == 3
    part, asked = np.flatnonzero(~tested).tolist(), np.flatnonzero(tested).tolist()
    model = trained([texts[one] for one in part], [kinds[one] for one in part])
    right = probabilities(model, [texts[one] for one in asked]).argmax(1) == np.array(kinds)[tested]
    print(f"right on {len(asked)} sentences of lines that were held out: {right.mean():.3f}")
    save_file({"weights": trained(texts, kinds).astype(np.float16)}, options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, from {len(texts)} sentences")


if __name__ == "__main__":
    main()
