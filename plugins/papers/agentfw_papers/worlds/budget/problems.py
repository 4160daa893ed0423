"""The problems, generated sums or questions from a file, and how answers are checked.

Training problems are never used for measuring: the split of a problem follows from its question.

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

_RESULT = re.compile(r"####\s*(.+)\s*\Z")
_SHARES = ("train",) * 8 + ("validation", "test")


@dataclass(frozen=True, slots=True)
class Problem:
    question: str
    answer: str
    terms: tuple[int, ...] = ()
    """The terms of a sum."""
    solution: str = ""
    """The worked solution, if the file has one."""


def share_of(question: str) -> str:
    """The split of a problem: 80% train, 10% validation, 10% test."""
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
    """The problems of a split in a file."""
    path = Path(file.replace("{split}", split)).expanduser()
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # a text in JSON may have other separators of lines
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"environment.file: can't read {path}: {error}", fix="pass a file of JSON lines") from None
    problems = [_problem(line, f"line {number} of {path}") for number, line in enumerate(lines, 1) if line.strip()]
    whole = "{split}" in file
    found = tuple(problem for problem in problems if whole or share_of(problem.question) == split)
    if not found:
        raise SettingsError(
            f"environment.file: {path} has no problems for {split}",
            fix="add lines (validation and test get a tenth each), or pass a file per split with {split} in its name",
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
    # GSM8K repeats each of its calculations in the text.
    return Problem(question, result[1].strip(), solution=re.sub(r"<<.*?>>", "", text[: result.start()]).strip())


def same(given: str, answer: str) -> bool:
    """Whether an answer is right, compared as numbers if both are numbers, else as text."""
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
