"""Tells what kind of sentence it is: a lasting fact, a wish, a correction, a request to forget, or something else.

Whether a message says yes, and nothing else, is told by a table of words.

A logistic regression over the hashed characters of a sentence and of what stands around it in its message, because
"He lives in Paris." says nothing of the user after "Write a story.". It was trained from written sentences in twelve
languages by `model_making/make_memory_kinds.py`. Vectors of `wordllama` beside them made it no better.
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
BUCKETS = 131_072
"""Number of buckets that the pieces of a sentence are hashed into."""
KEPT_FROM, KEPT_AFTER = 0.08, 0.04
"""Probability of saying something lasting from which on a sentence is kept, and the same for one that follows such a
sentence in a conversation: what follows "I've got a dog" mostly says more about it."""
FORGET_FROM, FORGET_SURELY = 0.05, 0.6
"""Probability from which on a sentence asks to forget something, with one of the words for it and without."""
WEIGHTS = Path(__file__).parent / "kinds.safetensors"


def probabilities(weights: Float32Array, sentences: Sequence[str], around: Sequence[str]) -> Float32Array:
    """Return the probability of each kind for each sentence: an array of shape (sentences, kinds).

    `weights` have a row for each bucket and a last one for all sentences, and a column for each kind. `around` has for
    each sentence the other sentences of its message.
    """
    score = np.tile(weights[-1], (len(sentences), 1))
    for place, texts in enumerate(zip(sentences, around, strict=True)):
        for found in buckets(*texts):
            score[place] += weights[found].sum(0) / np.sqrt(max(1, len(found)))
    score = np.exp(score - score.max(1, keepdims=True))
    return np.asarray(score / score.sum(1, keepdims=True), np.float32)


def kinds_of(sentences: Sequence[str], before: Sequence[str] = ()) -> list[Kind]:
    """Return the kinds of the sentences of a message, after those of the one before. Questions say nothing lasting."""
    asked = [may_ask_to_forget(one) for one in sentences]
    weights = _weights()
    if weights is None:
        return ["forget" if one else "fact" for one in asked]
    found: list[Kind] = []
    bound = KEPT_AFTER if before and set(kinds_of(before)) & set(KINDS[:3]) else KEPT_FROM
    around = [" ".join((*sentences[:place], *sentences[place + 1 :])) for place in range(len(sentences))]
    for sentence, row, forget in zip(sentences, probabilities(weights, sentences, around), asked, strict=True):
        if row[KINDS.index("forget")] >= (FORGET_FROM if forget else FORGET_SURELY):
            found.append("forget")
        elif row[:3].sum() < bound or sentence.rstrip()[-1:] in "?？؟":
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


def buckets(sentence: str, around: str) -> tuple[list[int], list[int]]:
    """Return the buckets of the pieces of a sentence, and those of what stands around it."""
    return _grams(sentence, ""), _grams(around, "around ") if around else []


def _grams(text: str, where: str) -> list[int]:
    """Return the buckets of a text's pieces. Digits count alike, because which number it is tells no kind."""
    text = f"^{re.sub(r'[0-9]', '0', text.casefold().strip()[:LONGEST])}$"
    pieces = {text[start : start + size] for size in range(1, 6) for start in range(len(text) - size + 1)}
    pieces |= {text[:size] for size in range(6, 13)} | {text[-size:] for size in range(6, 10)}
    words = text.split()
    pieces |= {"^" + " ".join(words[:count]) for count in (1, 2)} | {words[-1] + "$"} if words else set()
    return sorted({zlib.crc32(f"{where}{piece}".encode(errors="replace")) % BUCKETS for piece in pieces})


@cache
def _weights() -> Float32Array | None:
    """Return the weights, or None if they can't be read here."""
    if importlib.util.find_spec("safetensors") is None:
        return None
    from safetensors.numpy import load_file

    stored = load_file(WEIGHTS)
    return np.asarray(stored["weights"] * stored["scale"], np.float32)
