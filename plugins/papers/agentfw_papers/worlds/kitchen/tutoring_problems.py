"""Tutoring problems: sheets of exercises with explanations, of a length that their family gives.

A token is a word of the explanation, so its length is the time it takes. Any file of JSON lines with questions and
answers can be used, such as GSM8K.

    >>> from random import Random
    >>> (problem,) = draw_problems(KitchenSettings(variant="one", lesson="short"), "", Random(7))
    >>> 90 <= problem.length <= 150, problem.left == problem.length
    (True, True)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

from agentfw.errors import SettingsError

from .kitchen_settings import LESSONS, KitchenSettings, library


@dataclass(slots=True)
class Problem:
    """One problem to explain, and its progress."""

    name: str
    family: str
    questions: tuple[str, ...]
    pieces: tuple[str, ...]
    """The written explanation, token by token."""
    said: str = ""
    """What the tutor has said so far."""
    spent: int = 0
    """Number of tokens said so far."""
    done: bool = False

    @property
    def length(self) -> int:
        return len(self.pieces)

    @property
    def left(self) -> int:
        return max(0, self.length - self.spent)


@dataclass(frozen=True, slots=True)
class _Exercise:
    question: str
    pieces: tuple[str, ...]


def pieces_of(text: str) -> tuple[str, ...]:
    """The words of a text, each with the space before it."""
    return tuple(re.findall(r"\s*\S+", text))


def draw_problems(settings: KitchenSettings, case: str, draw: Random) -> list[Problem]:
    if settings.variant == "one":
        families = [settings.lesson if settings.lesson != "any" else draw.choice(LESSONS)]
    else:
        first = list(library()["cases"][case]["lessons"])
        families = [*first, *(draw.choice(LESSONS) for _ in range(settings.problems - len(first)))]
    pool = _exercises(settings.exercises)
    return [_problem(f"Q{number}", family, settings, pool, draw) for number, family in enumerate(families, start=1)]


def _problem(name: str, family: str, settings: KitchenSettings, pool: tuple[_Exercise, ...], draw: Random) -> Problem:
    """A problem made of exercises, of the length that was drawn."""
    least, most = getattr(settings, family)
    wanted = draw.randint(least, most)
    questions: list[str] = []
    pieces: list[str] = []
    for exercise in draw.sample(pool, min(len(pool), most)):
        if len(pieces) + len(exercise.pieces) <= most:
            questions.append(exercise.question)
            # Each explanation is a paragraph of its own.
            first = "\n\n" + exercise.pieces[0].lstrip() if pieces else exercise.pieces[0]
            pieces += [first, *exercise.pieces[1:]]
        if len(pieces) >= wanted:
            break
    if len(pieces) < least:
        raise SettingsError(
            f"environment.exercises: no sheet of {least} to {most} words can be made of the exercises",
            fix=f"add exercises, shorten them, or set another range for environment.{family}",
        )
    return Problem(name, family, tuple(questions), tuple(pieces))


@lru_cache(maxsize=4)
def _exercises(file: str) -> tuple[_Exercise, ...]:
    if not file:
        text = (files(__package__) / "exercises.json").read_text("utf-8")
        entries = json.loads(text)
    else:
        entries = _lines(file)
    return tuple(_Exercise(str(entry["question"]), pieces_of(_plain(str(entry["answer"])))) for entry in entries)


def _lines(file: str) -> list[dict[str, Any]]:
    try:
        lines = Path(file).expanduser().read_text("utf-8-sig").split("\n")  # JSON may have other separators in a text
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"environment.exercises: can't read {file}: {error}", fix="pass a file of JSON lines"
        ) from None
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not (isinstance(entry, dict) and str(entry.get("answer", "")).strip() and entry.get("question")):
            raise SettingsError(
                f"environment.exercises: line {number} of {file} has no question and answer in JSON",
                fix='write {"question": "...", "answer": "..."} on each line',
            )
        found.append(entry)
    if not found:
        raise SettingsError(f"environment.exercises: {file} is empty", fix="write a line for each exercise")
    return found


def _plain(answer: str) -> str:
    """Remove GSM8K's repeated calculations and the mark of the result."""
    return re.sub(r"####\s*(.+)", r"The answer is \1.", re.sub(r"<<.*?>>", "", answer)).strip()
