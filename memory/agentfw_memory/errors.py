"""Every error that the skill graph raises on purpose, in one tree.

The one rule: an error says what failed and, in `fix`, what to do about it; nothing that was kept before is changed
by an operation that ends in one.

    SkillGraphError
    ├── BadInputError       what was given can't be kept or asked: an empty query, a NaN, a text of megabytes
    ├── UnknownSkillError   no such skill in this tenant, or it isn't valid any more
    ├── StoreRefusedError   the file is another program's, or newer; the embedder isn't the one that made its vectors
    ├── StorageError        the disk refused; what was acknowledged is intact
    ├── StoreBusyError      others held the store for longer than anybody should
    └── MissingExtraError   an optional library isn't installed

Example:

    >>> str(UnknownSkillError("s17"))
    'there is no skill "s17" here'
"""

from __future__ import annotations

__all__ = [
    "BadInputError",
    "MissingExtraError",
    "SkillGraphError",
    "StoreBusyError",
    "StoreRefusedError",
    "UnknownSkillError",
]


class SkillGraphError(Exception):
    """What failed (`message`) and what to do about it (`fix`)."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class BadInputError(SkillGraphError, ValueError):
    pass


class UnknownSkillError(SkillGraphError, LookupError):
    def __init__(self, skill: object) -> None:
        super().__init__(f'there is no skill "{skill}" here', fix="take an id that add_skill or recall gave")


class StoreRefusedError(SkillGraphError):
    pass


class StorageError(SkillGraphError):
    pass


class StoreBusyError(SkillGraphError):
    pass


class MissingExtraError(SkillGraphError, ImportError):
    """An optional library is missing; the fix is the command that installs it."""

    def __init__(self, what: str, extra: str, module: str = "") -> None:
        needs = f" (no module {module})" if module else ""
        super().__init__(f'{what} needs the extra "{extra}"{needs}', fix=f'pip install "agentfw[{extra}]"')
        self.extra = extra
