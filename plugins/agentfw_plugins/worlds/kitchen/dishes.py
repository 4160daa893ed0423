"""What an episode is made of: its dishes and its tutoring problems, drawn from the families.

The one rule: all of it is drawn before anything happens, the moment of each whistle included; so one seed is one
kitchen, whatever the agent does in it.

    >>> from random import Random
    >>> dishes = draw_dishes(KitchenSettings(variant="one", dish="soft_keepwarm"), "", Random(7))
    >>> [(dish.name, dish.family, dish.critical) for dish in dishes]
    [('stew', 'soft_keepwarm', False)]

With several dishes, a case says how signals are meant to follow each other. They do if the dishes are put on the
stove one right after the other and it has room for them; from there on it is the agent's doing.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentfw.timeline import Time, Work

from .kitchen_settings import CASES, DISHES, DishFamily, KitchenSettings, library

__all__ = ["Dish", "draw_case", "draw_dishes"]

_BETWEEN = 20
"""Ticks that putting one more dish on the stove is expected to take besides preparing it: the deciding."""
_SHORTEST = 40
"""No dish cooks faster, however soon its signal is meant to follow another."""


@dataclass(slots=True)
class Dish:
    """One dish: what is known of it, and how far it has come."""

    name: str
    family: str
    critical: bool
    """Its window is hard, and it whistles; else it has a timer and keeps warm."""
    prepare: int
    cook: int
    """From the stove to the signal, as the recipe says."""
    finish: int
    lasts: int
    """How long after the signal it may be finished: the window, and what it keeps warm."""
    jitter: Time
    """How much later than the recipe says it whistles."""
    state: str = "raw"
    """raw, prepared, cooking, ready, then done."""
    staged: Time = 0
    signal: Time = 0
    finished: Time = 0
    quality: float = 0.0
    work: Work | None = None
    """On the stove: its cooking, then its window."""

    @property
    def due(self) -> Time:
        """When it must be finished, once it has given its signal."""
        return self.signal + self.lasts

    @property
    def on_the_stove(self) -> bool:
        return self.state in ("cooking", "ready")


def draw_case(settings: KitchenSettings, draw: Random) -> str:
    """Which case it is; with one dish there is none."""
    if settings.variant == "one":
        return ""
    return settings.case if settings.case != "any" else draw.choice(CASES)


def draw_dishes(settings: KitchenSettings, case: str, draw: Random) -> list[Dish]:
    names = {kind: draw.sample(some, len(some)) for kind, some in library()["names"].items()}
    dishes: list[Dish] = []
    for family, gap in _families(settings, case, draw):
        numbers: DishFamily = getattr(settings, family)
        critical = numbers.warm is None
        dish = Dish(
            name=names["whistle" if critical else "timer"].pop(),
            family=family,
            critical=critical,
            prepare=draw.randint(*numbers.prepare),
            cook=draw.randint(*numbers.cook),
            finish=draw.randint(*numbers.finish),
            lasts=draw.randint(*numbers.window) + (draw.randint(*numbers.warm) if numbers.warm else 0),
            jitter=round(draw.gauss(0, settings.jitter)) if critical else 0,
        )
        if gap and dishes:
            # Its signal is meant to follow the last one's by the gap, though it comes to the stove later.
            later = dish.prepare + settings.staging + _BETWEEN
            dish.cook = max(_SHORTEST, dishes[-1].cook + draw.randint(*gap) - later)
        dishes.append(dish)
    return dishes


def _families(settings: KitchenSettings, case: str, draw: Random) -> list[tuple[str, tuple[int, int] | None]]:
    """The family of each dish, and by how much its signal is meant to follow that of the dish before."""
    if settings.variant == "one":
        return [(settings.dish if settings.dish != "any" else draw.choice(DISHES), None)]
    plan = library()["cases"][case]
    gap = {
        "soft_vs_critical_conflict": settings.conflict_gap,
        "staggered_criticals": settings.staggered_gap,
        "resume_pressure": settings.pressure_gap,
    }[case]
    first: list[tuple[str, tuple[int, int] | None]] = [(draw.choice(some), gap) for some in plan["dishes"]]
    rest = settings.dishes - len(first)
    return [*first, *((draw.choice(plan["background"]), settings.background_gap) for _ in range(rest))][
        : settings.dishes
    ]
