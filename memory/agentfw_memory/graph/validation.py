"""Whether what a caller gave can be kept: names, texts, vectors, times, numbers.

The one rule: what is taken is kept exactly as it came. Nothing is trimmed or replaced in silence: it is taken, or it is
refused with what to change.

    >>> name_of("user", "O'Brien 100%")
    "O'Brien 100%"
    >>> name_of("user", "ana\\n")
    Traceback (most recent call last):
    ...
    agentfw_memory.errors.BadInputError: the user 'ana\\n' has a control character

Quotes, `%` and `_` are letters like any other here: no name ever becomes part of a statement or a pattern.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from agentfw_memory.errors import BadInputError, UnknownSkillError
from agentfw_memory.graph.stores.interface import Float32Array, number_of

__all__ = ["name_of", "names_of", "number", "rows_of", "skill_number", "text_of"]

LONGEST_NAME = 200
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f]")
_HALF = re.compile("[\ud800-\udfff]")
"""One of the two halves that some programs make a character of, alone: it is no character, and no file keeps it."""
_WHOLE = "take it out; it comes of text that was cut, or read with surrogatepass or surrogateescape"


def name_of(what: str, name: object) -> str:
    """A name of a tenant, user, tool, scenario or trajectory."""
    if not isinstance(name, str):
        raise BadInputError(f"the {what} {name!r} is no text", fix=f"name the {what} by a text")
    shown = name if len(name) <= 40 else name[:40] + "..."
    if not name.strip():
        raise BadInputError(f"the {what} has an empty name", fix=f"name the {what}")
    if len(name) > LONGEST_NAME:
        raise BadInputError(f"the {what} {shown!r} has {len(name)} characters", fix=f"use {LONGEST_NAME} at most")
    if _UNSEEN.search(name):
        raise BadInputError(f"the {what} {shown!r} has a control character", fix="use letters that can be seen")
    if _HALF.search(name):
        raise BadInputError(f"the {what} {shown!r} has half a character", fix=_WHOLE)
    return name


def names_of(what: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names without repetition, in the order in which they came."""
    if isinstance(names, str):
        raise BadInputError(f"the {what}s are one text, {names!r}", fix="give a list of names")
    return tuple(dict.fromkeys(name_of(what, name) for name in names))


def text_of(what: str, text: object, longest: int) -> str:
    if not isinstance(text, str):
        raise BadInputError(f"the {what} is no text but {type(text).__name__}", fix="give a text")
    if not text.strip():
        raise BadInputError(f"the {what} is empty", fix="say something")
    if len(text) > longest:
        raise BadInputError(
            f"the {what} has {len(text)} characters; at most {longest} are taken",
            fix="shorten it, or raise the setting longest_text",
        )
    if "\x00" in text:
        raise BadInputError(f"the {what} has a NUL character", fix="take it out")
    if half := _HALF.search(text):
        raise BadInputError(
            f"the {what} has half a character, {half[0]!r} at {half.start()}, which no file keeps", fix=_WHOLE
        )
    return text


def number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise BadInputError(f"the {what} {value!r} is no finite number", fix=f"give the {what} as a number")
    return float(value)


def skill_number(skill: object) -> int:
    """The number in a skill's id."""
    found = number_of(skill) if isinstance(skill, str) else None
    if found is None:
        raise UnknownSkillError(skill)
    return found


def rows_of(vectors: object, texts: Sequence[str], dimensions: int) -> Float32Array:
    """What an embedder gave for these texts, as rows of unit length."""
    rows = np.asarray(vectors, np.float32)
    if rows.shape != (len(texts), dimensions):
        raise BadInputError(
            f"the embedder gave an array of shape {rows.shape} for {len(texts)} texts",
            fix=f"it should be {(len(texts), dimensions)}: a row of {dimensions} numbers each",
        )
    if not np.isfinite(rows).all():
        text = texts[int(np.argmin(np.isfinite(rows).all(1)))]
        raise BadInputError(
            f"the embedder gave NaN or infinity for {text[:60]!r}",
            fix="nothing was kept of it; look into the embedder",
        )
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-12), np.float32)
