"""Deleting for good: all data of a user, single skills, or one version of a skill.

What is deleted leaves no words in the store: not in its rows, its saved indexes and its log, nor in a later export. The
rows go in one transaction. Then the files are rewritten. A call that was interrupted there can be repeated.

The words of a single skill may be elsewhere too. With it go shared copies of it, past versions with the same words, and
what was kept of the trajectories of its owner that told it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.learning.sharing import Sharing
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.rows.erasing import erase_versions, forget_user
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Among, Change, Select
from agentfw_memory.graph.text.words import terms

__all__ = ["Forgetter"]

TOLD = 0.5
"""Share of a skill's words from which on a trajectory's text counts as telling it."""

Counts = dict[str, int]


class Forgetter:
    """Deletes rows of one tenant."""

    def __init__(self, rows: GraphRows, recaller: Recaller, sharing: Sharing) -> None:
        self._rows, self._recaller, self._sharing = rows, recaller, sharing

    def forget(self, user: str) -> Counts:
        """Delete the rows of a user. Return counts by the names of `Receipt`."""
        number = self._rows.find("user", user)
        return {} if number is None else self._deleted(lambda change: self._forget(change, number))

    def erase(self, skills: Iterable[int], version: int | None = None) -> Counts:
        """Delete the rows of skills, ended ones too, or of this past version of them. What isn't there is ignored."""
        owned: dict[int, set[int]] = {}
        some = Select("version", ("number", "owner"), {"number": Among(list(skills))}, distinct=True)
        for skill, owner in self._rows.store.read(some)[0]:
            owned.setdefault(owner, set()).add(skill)
        return self._deleted(lambda change: self._erase(change, owned, version)) if owned else {}

    # Helpers

    def _deleted(self, delete: Callable[[Change], Counts]) -> Counts:
        self._recaller.catch_up()
        with self._rows.writing() as change:
            self._recaller.catch_up(change.number - 1)
            return delete(change)

    def _forget(self, change: Change, user: int) -> Counts:
        shared = self._sharing.behind(user)
        counts = forget_user(self._rows, change, user)
        self._sharing.delete_unshared(change, shared)
        return counts

    def _erase(self, change: Change, owned: dict[int, set[int]], version: int | None) -> Counts:
        total: Counts = {}
        for owner, skills in owned.items():
            versions, trips = self._rows.store.read(
                Select("version", ("number", "ordinal", "text", "valid_to"), {"owner": owner}),
                Select("trajectory", ("number", "query", "outcome"), {"user": owner}),
            )
            rows = [(number, ordinal, text, end is not None) for number, ordinal, text, end in versions]
            meant = [row for row in rows if row[0] in skills and version in (None, row[1])]
            if version is not None and any(not past for *_, past in meant):
                raise BadInputError(
                    f"version {version} is what the skill says now",
                    fix="update the skill first, retire it, or delete the whole skill",
                )
            texts = {text for _, _, text, _ in meant}
            said = {frozenset(terms(text)) for text in texts}
            chosen = {(number, ordinal) for number, ordinal, _, _ in meant}
            same = [
                (number, ordinal)
                for number, ordinal, text, past in rows
                if (number, ordinal) in chosen or (past and frozenset(terms(text)) in said)
            ]
            told = [number for number, query, outcome in trips if _tells(f"{query} {outcome}", said)]
            counts = erase_versions(self._rows, change, same, told)
            self._sharing.withdraw(change, owner, texts)
            total = {name: total.get(name, 0) + count for name, count in counts.items()}
        return total


def _tells(text: str, said: set[frozenset[str]]) -> bool:
    words = set(terms(text))
    return any(len(words & one) >= TOLD * len(one) for one in said)
