"""Makes plans from a choice of analyses: adds what they need, and wires them up.

>>> [step.skill for step in plan_of(["sales_forecast"])]
['category_trend', 'sales_forecast']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .plan import Step
from .skills import SKILLS


def with_needs(skills: Iterable[str]) -> list[str]:
    """Analyses with all that they need, each after what it is built on."""
    wanted: set[str] = set()
    for name in skills:
        wanted |= {name, *SKILLS[name].needs}
    found: list[str] = []
    while left := [name for name in SKILLS if name in wanted and name not in found]:
        found += [name for name in left if not _inputs(name, wanted) - set(found)]
    return found


def plan_of(
    skills: Iterable[str], *, unlinked: Collection[str] = (), done: Mapping[str, str] | None = None
) -> list[Step]:
    """A plan of these analyses. Each is built on whatever it can use, except those in `unlinked`.

    `done` are finished steps of an earlier plan and their analyses: they are used, and not done again.
    """
    finished = {skill: id for id, skill in (done or {}).items()}
    names = [name for name in with_needs(skills) if name not in finished]
    ids = finished | {name: f"{'again-' if done is not None else ''}{name}" for name in names}
    return [
        Step(
            id=ids[name],
            skill=name,
            needs=[
                ids[one]
                for one in (*SKILLS[name].needs, *(() if name in unlinked else SKILLS[name].uses))
                if one in ids
            ],
        )
        for name in names
    ]


def _inputs(name: str, among: Collection[str]) -> set[str]:
    return {one for one in (*SKILLS[name].needs, *SKILLS[name].uses) if one in among}
