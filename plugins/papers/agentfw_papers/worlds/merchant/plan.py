"""A plan: the analyses to do, and what each is built on. It is checked before anything is done.

>>> plan = check_plan([Step(id="a", skill="category_trend"), Step(id="b", skill="sales_forecast", needs=["a"])], {}, 24)
>>> [step.id for step in plan]
['a', 'b']
>>> check_plan([Step(id="a", skill="risk_sreen")], {}, 24)
Traceback (most recent call last):
...
agentfw.errors.InterventionRefused: step a: there is no analysis "risk_sreen"; did you mean "risk_screen"?

`plan_of` makes plans from a choice of analyses: adds what they need, and wires them up.

>>> [step.skill for step in plan_of(["sales_forecast"])]
['category_trend', 'sales_forecast']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agentfw.errors import InterventionRefused, nearest

from .skills import SKILLS

MOST_STEPS = 10
_LONGEST = 40


class Step(BaseModel):
    """One step of a plan."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(min_length=1, max_length=_LONGEST, description="name of the step, such as s1")
    skill: str = Field(max_length=200, description="name of the analysis")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="arguments of the analysis: months, the number of recent months to look at"
    )
    needs: list[str] = Field(default_factory=list, max_length=20, description="ids of the steps that it is built on")


def check_plan(steps: Sequence[Step], done: Mapping[str, str], months: int) -> list[Step]:
    """Return the steps in an order in which they can be done. `done` are earlier steps and their analyses.

    Raises InterventionRefused in words that a model can act on.
    """
    if not steps:
        raise InterventionRefused("the plan has no steps")
    if len(steps) > MOST_STEPS:
        raise InterventionRefused(f"the plan has {len(steps)} steps; at most {MOST_STEPS} are allowed")
    named = {step.id: step for step in steps}
    if len(named) < len(steps):
        twice = next(
            step.id for number, step in enumerate(steps) if step in steps[:number] or named[step.id] is not step
        )
        raise InterventionRefused(f"two steps have the id {twice}")
    again = next((step.id for step in steps if step.id in done), None)
    if again is not None:
        raise InterventionRefused(f"step {again}: an earlier plan has a step of this id")
    for step in steps:
        _check_step(step, named, done, months)
    ordered = _ordered(steps, named)
    for step in ordered:
        _check_inputs(step, named, done)
    return ordered


def _check_step(step: Step, named: Mapping[str, Step], done: Mapping[str, str], months: int) -> None:
    if step.skill not in SKILLS:
        guess = nearest(step.skill, SKILLS)
        hint = f'; did you mean "{guess}"?' if guess else f"; there is: {', '.join(SKILLS)}"
        raise InterventionRefused(f'step {step.id}: there is no analysis "{step.skill[:_LONGEST]}"{hint}')
    _check_arguments(step, months)
    unknown = next((need for need in step.needs if need not in named and need not in done), None)
    if unknown is not None:
        guess = nearest(unknown, [*named, *done])
        hint = f'; did you mean "{guess}"?' if guess else ""
        raise InterventionRefused(f'step {step.id} needs "{unknown[:_LONGEST]}", which is no step{hint}')


def _check_arguments(step: Step, months: int) -> None:
    allowed = SKILLS[step.skill].arguments
    for name, value in step.arguments.items():
        if name not in allowed:
            takes = f"only {', '.join(allowed)}" if allowed else "no arguments"
            raise InterventionRefused(f'step {step.id}: {step.skill} takes {takes}, not "{name[:_LONGEST]}"')
        if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= months:
            raise InterventionRefused(
                f"step {step.id}: {name} must be a whole number from 2 to {months}, not {str(value)[:_LONGEST]}"
            )


def _ordered(steps: Sequence[Step], named: Mapping[str, Step]) -> list[Step]:
    """The steps, each after those that it needs. Raises InterventionRefused where they need each other in a circle."""
    found: dict[str, Step] = {}
    for step in steps:
        path: list[str] = []
        _visit(step, named, found, path)
    return list(found.values())


def _visit(step: Step, named: Mapping[str, Step], found: dict[str, Step], path: list[str]) -> None:
    if step.id in found:
        return
    if step.id in path:
        circle = [*path[path.index(step.id) :], step.id]
        raise InterventionRefused(f"the steps need each other in a circle: {' -> '.join(circle)}")
    path.append(step.id)
    for need in step.needs:
        if need in named:
            _visit(named[need], named, found, path)
    path.pop()
    found[step.id] = step


def _check_inputs(step: Step, named: Mapping[str, Step], done: Mapping[str, str]) -> None:
    given = {named[need].skill if need in named else done[need] for need in step.needs}
    missing = [need for need in SKILLS[step.skill].needs if need not in given]
    if missing:
        raise InterventionRefused(
            f"step {step.id}: {step.skill} needs a step of {missing[0]} to build on; add it, and its id to needs"
        )


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
