"""What connects skills: the scenarios they apply to, and the trajectories that used them together.

An owner may have a thousand skills about a thousand things, so a common owner says little. Two skills of one scenario,
or two that somebody used for one task, are about the same thing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from agentfw_memory.graph.stores.interface import Store

__all__ = ["REMEMBERED", "SAMPLED", "Connections"]

REMEMBERED = 5
"""Number of latest trajectories of a skill that are followed. A popular skill has thousands."""
SAMPLED = 2000
"""Number of latest uses that are kept with their rewards."""

Use = tuple[int, int, int, float]
"""A trajectory, its user, a skill that it used, and its reward."""


class Connections:
    """Scenarios and trajectories by skill, and skills by scenario and trajectory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._row = 0
        self.members: dict[int, set[int]] = {}
        """The skills of each scenario."""
        self.scenarios: dict[int, set[int]] = {}
        """The scenarios of each skill."""
        self.uses: deque[Use] = deque(maxlen=SAMPLED)
        """The latest uses. Those of one trajectory follow each other."""
        self.rated: set[int] = set()
        """The skills that were shown for an answer which somebody rated."""
        self._used: dict[int, list[int]] = {}
        self._trajectories: dict[int, deque[int]] = {}

    def used_with(self, skill: int) -> list[int]:
        """Return the skills that the latest trajectories of a skill used too."""
        return [other for one in self._trajectories.get(skill, ()) for other in self._used[one] if other != skill]

    def catch_up(self, touched: Sequence[int] | None) -> None:
        """Take over what is new in the store: all of it, or scenarios of these skills and uses of any."""
        self._drop_scenarios(touched or ())
        self.know(self._store.scenarios(touched), (), ())
        # Most edges aren't uses, and those before this one needn't be looked at again.
        latest = self._store.latest_edge()
        for row, kind, trajectory, user, skill, reward in self._store.uses(self._row):
            latest = max(latest, row)
            if kind == "SHOWN":
                self.rated.add(skill)
                continue
            self.know((), [(trajectory, skill)], [(trajectory, user, skill, reward)])
        self._row = latest

    def know(self, scenarios: Iterable[tuple[int, int]], used: Iterable[tuple[int, int]], uses: Iterable[Use]) -> None:
        """Take over scenarios of skills, skills that trajectories used, and uses with their rewards, as they are."""
        for skill, scenario in scenarios:
            self.members.setdefault(scenario, set()).add(skill)
            self.scenarios.setdefault(skill, set()).add(scenario)
        for trajectory, skill in used:
            self._used.setdefault(trajectory, []).append(skill)
            self._trajectories.setdefault(skill, deque(maxlen=REMEMBERED)).append(trajectory)
        self.uses.extend(uses)

    def drop(self, gone: Iterable[int]) -> None:
        """Forget skills. A forgotten user may have made any of the trajectories, so these are read again."""
        self._drop_scenarios(gone)
        self._row = 0
        self.uses.clear()
        self._used.clear()
        self._trajectories.clear()

    def _drop_scenarios(self, skills: Iterable[int]) -> None:
        for skill in skills:
            for scenario in self.scenarios.pop(skill, ()):
                self.members[scenario].discard(skill)
