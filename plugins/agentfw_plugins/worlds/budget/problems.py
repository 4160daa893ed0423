"""The problems: sums that are drawn, or questions from a file; and when an answer is the right one.

The one rule: what is learned from is never measured on. Which split a problem belongs to follows from what it asks.

    >>> from random import Random
    >>> problem = draw_problem(BudgetSettings(), "train", Random(7))
    >>> problem.question, problem.answer
    ('What is 6 + 3 + 7 + 1 + 2?', '19')
    >>> share_of(problem.question)
    'train'
    >>> same("$1,024.00", "1024"), same("about 12", "12")
    (True, False)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from random import Random

from agentfw.errors import SettingsError

from .budget_settings import BudgetSettings

__all__ = ["Problem", "draw_problem", "read_problems", "same", "share_of"]

_RESULT = re.compile(r"####\s*(.+)\s*\Z")
_SHARES = ("train",) * 8 + ("validation", "test")


@dataclass(frozen=True, slots=True)
class Problem:
    question: str
    answer: str
    terms: tuple[int, ...] = ()
    """The numbers of a sum."""
    solution: str = ""
    """How a file says that it is solved."""


def share_of(question: str) -> str:
    """Which split a problem belongs to: eight tenths are for training, one for validation and one for the test."""
    return _SHARES[int.from_bytes(sha256(question.encode()).digest()[:4], "big") % len(_SHARES)]


def draw_problem(settings: BudgetSettings, split: str, draw: Random) -> Problem:
    if settings.file:
        return draw.choice(read_problems(settings.file, split))
    while True:
        terms = tuple(draw.randint(1, settings.most) for _ in range(settings.terms))
        question = f"What is {' + '.join(map(str, terms))}?"
        if share_of(question) == split:
            return Problem(question, str(sum(terms)), terms)


@lru_cache(maxsize=6)
def read_problems(file: str, split: str) -> tuple[Problem, ...]:
    """The problems of a split that a file has."""
    path = Path(file.replace("{split}", split)).expanduser()
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"environment.file: can't read {path}: {error}", fix="name a file of problems, one in JSON on each line"
        ) from None
    problems = [_problem(line, f"line {number} of {path}") for number, line in enumerate(lines, 1) if line.strip()]
    whole = "{split}" in file
    found = tuple(problem for problem in problems if whole or share_of(problem.question) == split)
    if not found:
        raise SettingsError(
            f"environment.file: {path} has no problems for {split}",
            fix="give it more lines: a tenth each goes to validation and test; or a file for each split, by {split}",
        )
    return found


def _problem(line: str, where: str) -> Problem:
    try:
        entry = json.loads(line)
        question, answer = entry["question"], entry["answer"]
        if not (isinstance(question, str) and question.strip() and str(answer).strip()):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise SettingsError(
            f"environment.file: {where} has no question and answer in JSON",
            fix='write {"question": "...", "answer": "..."}; an answer may end with #### and the result',
        ) from None
    text = str(answer).strip()
    result = _RESULT.search(text)
    if result is None:
        return Problem(question, text)
    # GSM8K writes each of its calculations into the text a second time.
    return Problem(question, result[1].strip(), solution=re.sub(r"<<.*?>>", "", text[: result.start()]).strip())


def same(given: str, answer: str) -> bool:
    """Whether an answer is the right one: as numbers where both are, and else letter by letter."""
    numbers = _number(given), _number(answer)
    if None in numbers:
        return given.strip().casefold() == answer.strip().casefold()
    return numbers[0] == numbers[1]


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(re.sub(r"[\s,$%]", "", text).rstrip("."))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
