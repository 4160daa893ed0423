"""What can be observed in the kitchen, as values for programs and as text for models.

It shows what a cook could know: recipes, the clock and the signals so far. The exact time of a whistle is hidden; a
recipe only gives it roughly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .dishes import Dish
from .kitchen_settings import KitchenSettings
from .tutoring_problems import Problem

SIGNALS = ("whistle", "timer")
"""Observations that announce a dish: a critical one and a soft one."""

View = Mapping[str, Any]

_GOAL = """You keep a kitchen and tutor a pupil at the same time, on one clock that never stops.

A tick is the time in which the tutor says one token. What you write yourself takes time too, {time_per_token:g} ticks a
token, and meanwhile everything goes on; so keep it short. Answer with one action, or with several to be done one after
the other, and with nothing else:

<prepare dish="NAME"/>   get a dish ready for the stove
<stage dish="NAME"/>     put a prepared dish on a free burner; it cooks by itself and gives a signal
<finish dish="NAME"/>    take a dish off the stove and serve it; before its signal it is raw and worth nothing
<tutor/>                 have the current problem explained to its end; <tutor tokens="N"/> stops after N tokens
<wait/>                  wait for the next signal; <wait ticks="N"/> for N ticks at most
<check/>                 look at the stove
<end/>                   call it a day; nothing more can be gained afterwards

You have one pair of hands: preparing, staging, finishing and checking are done to their end, one at a time. Tutoring
and waiting are put aside at once for anything else, and an explanation goes on later where it was. What you ask for in
a new answer takes the place of what you asked for before and hasn't been begun.

A critical dish pays 1 if it is finished within its window after the whistle, else 0. A soft dish pays 1, and {late:g}
when it was kept warm for too long. Each explained problem pays 1. Each tick costs {time_cost:g}, each change between
the kitchen and tutoring {switch_cost:g}, each check {check_cost:g}. All is over after {budget} ticks."""


def shown(dishes: Sequence[Dish], problems: Sequence[Problem], burners: int, hand: str) -> dict[str, Any]:
    """The state as plain JSON values, part of every observation."""
    return {
        "dishes": [_dish(dish) for dish in dishes],
        "problems": [{"name": one.name, "length": one.length, "left": one.left, "done": one.done} for one in problems],
        "free": burners - sum(dish.on_the_stove for dish in dishes),
        "hand": hand,
    }


def _dish(dish: Dish) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": dish.name,
        "critical": dish.critical,
        "state": dish.state,
        "prepare": dish.prepare,
        "finish": dish.finish,
        "lasts": dish.lasts,
    }
    if dish.state == "cooking":
        found["about"] = dish.staged + dish.cook
    elif dish.state == "ready":
        found["due"] = dish.due
    return found


def status(view: View) -> str:
    """One line."""
    parts = []
    for dish in view["dishes"]:
        if dish["state"] == "cooking":
            parts.append(f"{dish['name']} on the stove, signal at about {dish['about']:g}")
        elif dish["state"] == "ready":
            parts.append(f"{dish['name']} READY, finish it by {dish['due']:g}")
        else:
            parts.append(f"{dish['name']} {dish['state']}")
    parts.append(f"{view['free'] or 'no'} burner{'s' if view['free'] > 1 else ''} free")
    parts += [_progress(problem) for problem in view["problems"]]
    if view["hand"]:
        parts.append(f"in hand: {view['hand']}")
    return "; ".join(parts)


def _progress(problem: View) -> str:
    return (
        f"{problem['name']} is explained" if problem["done"] else f"{problem['name']} has {problem['left']} tokens left"
    )


def opening(dishes: Sequence[Dish], problems: Sequence[Problem], burners: int) -> str:
    """The text of the first observation."""
    lines = [f"The stove has {burners} burner{'s' if burners > 1 else ''}. The dishes:"]
    for dish in dishes:
        recipe = (
            f"prepare {dish.prepare} ticks, signal about {dish.cook} after it is on the stove, finish {dish.finish}"
        )
        if dish.critical:
            window = f"CRITICAL: it must be finished within {dish.lasts} of its whistle"
        else:
            window = f"soft: it keeps warm, finished within {dish.lasts} of its timer it is as good as at once"
        lines.append(f'- dish="{dish.name}": {recipe}; {window}')
    lines.append("The problems to explain, in this order:")
    lines += [f"- {one.name}, {one.length} tokens: {' '.join(one.questions)}" for one in problems]
    return "\n".join(lines)


def goal_of(settings: KitchenSettings) -> str:
    """The goal that an agent is given, with rewards and costs."""
    return _GOAL.format_map(dict(settings))
