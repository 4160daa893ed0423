"""Trains the classifier by which a memory without a model tells lasting sentences from others.

    python model_making/make_memory_kinds.py

The sentences are in memory_sentences.txt: five kinds in twelve languages, written for this. The same sentences always
give the same weights. First, a quarter of them is held out, to print how many of its lasting sentences are kept, and
how many of the others. Whole lines are held out, and of a line with a `*` whole frames: "my neighbour wrote:" with
each of its facts. So what is measured is frames that were never seen.
"""

from __future__ import annotations

import argparse
import random
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.optimize import minimize
from scipy.sparse import csr_array

from agentfw_memory.writing.kinds import BUCKETS, KEPT_FROM, KINDS, WEIGHTS, buckets, probabilities

SENTENCES = Path(__file__).parent / "memory_sentences.txt"
ENDS = 3
"""Number of ends that each beginning in a line of parts is joined with."""
FRAMED = 3
"""Number of facts of its language that stand for a `*`. What decides then is the other part: each of these facts is
there without it, too."""
STEPS, DECAY = 200, 3e-7
"""Maximum number of steps of the descent, and the weight of the squared weights in the loss."""
PARTS = 4
"""Number of parts, of which the last one is held out first."""

Array = NDArray[np.float32]


class Sentence(NamedTuple):
    text: str
    kind: int
    part: int
    around: str = ""
    """The rest of its message."""


def sentences() -> list[Sentence]:
    """Return the sentences, each with the places of its kind and the part of all sentences that it belongs to."""
    found: list[Sentence] = []
    written: dict[tuple[str, str], list[str]] = {}
    lines = [line.partition(": ")[::2] for line in SENTENCES.read_text("utf-8").splitlines()]
    for head, rest in lines:
        if not head.endswith("++"):
            written.setdefault((head[:2], head[3:]), []).extend(one.strip() for one in rest.split(" / "))
    for number, (head, rest) in enumerate(lines):
        if head.startswith("#"):
            continue
        language, kind, *_ = head.split()
        draw, facts = random.Random(number), written[language, "fact"]
        beginnings, ends = ([one.strip() for one in part.split(" / ")] for part in f"{rest} ++ ".split(" ++ ")[:2])
        gap = "" if language in ("zh", "ja") else " "
        label = KINDS.index("other" if kind == "scene" else kind)
        line = zlib.crc32(str(number).encode()) % PARTS
        texts = [(one, line) for one in beginnings]
        if beginnings == ["*"]:
            texts = [(fact.rstrip(".。।") + end, _part(end)) for end in ends for fact in draw.sample(facts, FRAMED)]
        elif ends == ["*"]:
            texts = [(one + gap + fact, _part(one)) for one in beginnings for fact in draw.sample(facts, FRAMED)]
        elif ends != [""]:
            texts = [
                (f"{one}{gap}{ends[(ENDS * place + step) % len(ends)]}", line)
                for place, one in enumerate(beginnings)
                for step in range(ENDS)
            ]
        elif kind == "scene":  # whatever stands beside it in a message is no fact
            texts = [(one, _part(one)) for one in beginnings]
            beside = [(one, part, fact) for one, part in texts for fact in draw.sample(facts, FRAMED)]
            found += [Sentence(fact, label, part, one) for one, part, fact in beside]
        found += [Sentence(one, label, part) for one, part in texts]
        # Most of what stands beside a sentence changes nothing of what it says.
        others = written[language, "other"] + facts
        found += [Sentence(one, label, part, draw.choice(others)) for one, part in texts if draw.random() < 0.3]
    return found


def _part(frame: str) -> int:
    """Return the part of a frame, the same for all that resemble it."""
    return zlib.crc32(re.sub(r"\W", "", frame.casefold()).encode()) % PARTS


def matrix(some: Sequence[Sentence]) -> csr_array:
    """Return a row for each sentence. Its last column is 1."""
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for one in some:
        for found in buckets(one.text, one.around):
            columns += found
            values += [1.0 / np.sqrt(len(found))] * len(found) if found else []
        columns.append(BUCKETS)
        values.append(1.0)
        ends.append(len(columns))
    return csr_array((np.array(values, np.float32), columns, ends), shape=(len(some), BUCKETS + 1))


def trained(some: Sequence[Sentence]) -> Array:
    """Return the weights with the least cross-entropy. A kind counts by the root of its number of sentences."""
    rows = matrix(some)
    columns = csr_array(rows.T)
    wanted = np.eye(len(KINDS), dtype=np.float32)[[one.kind for one in some]]
    share = (wanted.sum(0) ** -0.5)[[one.kind for one in some]][:, None]
    share /= share.sum()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(-1, len(KINDS)).astype(np.float32)
        score = rows @ weights
        score -= score.max(1, keepdims=True)
        logs = score - np.log(np.exp(score).sum(1, keepdims=True))
        slope = columns @ ((np.exp(logs) - wanted) * share) + DECAY * weights
        value = DECAY / 2 * (weights**2).sum(dtype=np.float64) - (logs * wanted * share).sum(dtype=np.float64)
        return float(value), slope.ravel().astype(np.float64)

    start = np.zeros((BUCKETS + 1) * len(KINDS))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "maxfun": 2 * STEPS})
    return np.asarray(found.x.reshape(-1, len(KINDS)), np.float32)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="Output file.")
    options = parser.parse_args(arguments)
    some = sentences()
    asked = [one for one in some if one.part == PARTS - 1]
    part = trained([one for one in some if one.part != PARTS - 1])
    sure = probabilities(part, [one.text for one in asked], [one.around for one in asked])[:, :3].sum(1)
    lasting = np.array([one.kind < 3 for one in asked])
    print(f"of {len(asked)} sentences that were held out:", flush=True)
    for bound in sorted({0.02, 0.05, 0.1, 0.2, 0.4, KEPT_FROM}):
        print(f"kept from {bound:.2f} on: {(sure[lasting] >= bound).mean():.3f}", end=", and wrongly ")
        print(f"{(sure[~lasting] >= bound).mean():.3f}")
    weights = trained(some)
    scale = np.abs(weights).max(0) / 127
    save_file({"weights": np.round(weights / scale).astype(np.int8), "scale": scale}, options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, from {len(some)} sentences")


if __name__ == "__main__":
    main()
