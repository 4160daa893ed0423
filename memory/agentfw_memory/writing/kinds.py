"""Tells what kind of sentence it is: a lasting fact, a wish, a correction, a request to forget, or something else.

Whether a message says yes, and nothing else, is told by a table of words.

A logistic regression over the hashed characters of a sentence, trained from written sentences in twelve languages by
`model_making/make_memory_kinds.py`. Vectors of `wordllama` beside them made it no better.
"""

from __future__ import annotations

import importlib.util
import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from agentfw_memory.graph.arrays import Float32Array

Kind = Literal["fact", "wish", "correction", "forget", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST = 300
"""Number of characters of a sentence that are looked at."""
BUCKETS = 32_768
"""Number of buckets that the pieces of a sentence are hashed into."""
KEPT_FROM = 0.46
"""Probability of saying something lasting from which on a sentence is kept."""
FORGET_FROM, FORGET_SURELY = 0.1, 0.6
"""Probability from which on a sentence asks to forget something, with one of the words for it and without."""
WEIGHTS = Path(__file__).parent / "kinds.safetensors"


def probabilities(weights: Float32Array, sentences: Sequence[str]) -> Float32Array:
    """Return the probability of each kind for each sentence: an array of shape (sentences, kinds).

    `weights` have a row for each bucket and a last one for all sentences, and a column for each kind.
    """
    score = np.empty((len(sentences), len(KINDS)), np.float32)
    for place, sentence in enumerate(sentences):
        found = grams(sentence)
        score[place] = weights[found].sum(0) / np.sqrt(max(1, len(found))) + weights[-1]
    score = np.exp(score - score.max(1, keepdims=True))
    return np.asarray(score / score.sum(1, keepdims=True), np.float32)


def kinds_of(sentences: Sequence[str]) -> list[Kind]:
    """Return the kinds of sentences. A question says nothing lasting."""
    asked = [may_ask_to_forget(one) for one in sentences]
    weights = _weights()
    if weights is None:
        return ["forget" if one else "fact" for one in asked]
    found: list[Kind] = []
    for sentence, row, forget in zip(sentences, probabilities(weights, sentences), asked, strict=True):
        if row[KINDS.index("forget")] >= (FORGET_FROM if forget else FORGET_SURELY):
            found.append("forget")
        elif row[:3].sum() < KEPT_FROM or sentence.rstrip()[-1:] in "?？؟":
            found.append("other")
        else:
            found.append(KINDS[int(row[:3].argmax())])
    return found


def may_ask_to_forget(text: str) -> bool:
    """Return whether a text has one of the words by which one asks to forget something."""
    return bool(_forget_words().search(text))


def says_yes(text: str) -> bool:
    """Return whether a message says yes, in one of twelve languages, and nothing else.

    >>> [says_yes(one) for one in ("Yes, please delete it!", "是的", "Yes, and the cat?", "Please delete it")]
    [True, True, False, False]
    """
    said = re.sub(r"[\W_]+", " ", text.casefold().replace("’", "'")).strip()
    return len(text) <= LONGEST and bool(_yes_words().fullmatch(said))


@cache
def _yes_words() -> re.Pattern[str]:
    """Words of consent, at least one, and words that stand beside them. Chinese and Japanese need no spaces."""
    table = json.loads((Path(__file__).parent / "yes_words.json").read_text("utf-8"))
    words = {name: [re.sub(r"[\W_]+", " ", word).strip() for word in some] for name, some in table.items()}
    yes, beside = (
        "|".join(re.escape(one) + ("" if "\u3040" <= one[-1] <= "\u9fff" else r"(?!\w)") for one in some)
        for some in (words["yes"], words["yes"] + words["beside"])
    )
    return re.compile(rf"(?:(?:{beside}) ?)*(?:{yes})(?: ?(?:{beside}))*")


@cache
def _forget_words() -> re.Pattern[str]:
    """The words by which one asks to forget something, in twelve languages."""
    words = json.loads((Path(__file__).parent / "forget_words.json").read_text("utf-8"))
    return re.compile("|".join(rf"(?<!\w){word}" if word[0].isascii() else word for word in words), re.IGNORECASE)


def grams(sentence: str) -> list[int]:
    """Return the buckets of a sentence's pieces. Digits count alike, because which number it is tells no kind."""
    text = f"^{re.sub(r'[0-9]', '0', sentence.casefold().strip()[:LONGEST])}$"
    pieces = {text[start : start + size] for size in range(1, 6) for start in range(len(text) - size + 1)}
    pieces |= {text[:size] for size in range(6, 13)} | {text[-size:] for size in range(6, 10)}
    words = text.split()
    pieces |= {"^" + " ".join(words[:count]) for count in (1, 2)} | {words[-1] + "$"} if words else set()
    return sorted({zlib.crc32(piece.encode(errors="replace")) % BUCKETS for piece in pieces})


@cache
def _weights() -> Float32Array | None:
    """Return the weights, or None if they can't be read here."""
    if importlib.util.find_spec("safetensors") is None:
        return None
    from safetensors.numpy import load_file

    return np.asarray(load_file(WEIGHTS)["weights"], np.float32)
