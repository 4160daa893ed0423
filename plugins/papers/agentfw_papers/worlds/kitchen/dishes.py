"""The dishes of an episode, drawn from their families.

Everything is drawn before the episode begins, including the moment of each whistle. So one seed is one kitchen,
whatever the agent does in it.

    >>> from random import Random
    >>> dishes = draw_dishes(KitchenSettings(variant="one", dish="soft_keepwarm"), "", Random(7))
    >>> [(dish.name, dish.family, dish.critical) for dish in dishes]
    [('stew', 'soft_keepwarm', False)]

With several dishes, a case says how signals are meant to follow each other. They do if the dishes are put on the
stove one right after the other and it has room for them; from there on it is the agent's doing.

One pair of hands: what is in hand, and what comes next.

Work is always finished; resting can be interrupted. A new turn replaces what an earlier turn had requested and was not
yet begun. Within a turn, requests are done in order.

    >>> hands, served = Hands(), []
    >>> hands.ask(lambda: hands.take("stir"))
    >>> hands.ask(lambda: served.append("soup"))
    >>> hands.name, served
    ('stir', [])
    >>> hands.next(), served
    ([], ['soup'])
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from agentfw.errors import InterventionRefused
from agentfw.timeline import Time, Work

from .kitchen_settings import CASES, DISHES, DishFamily, KitchenSettings, library

_BETWEEN = 20
"""Expected ticks of deciding to put another dish on the stove."""
_SHORTEST = 40
"""Minimum cooking time, however soon the signal is planned."""


@dataclass(slots=True)
class Dish:
    """One dish and its progress."""

    name: str
    family: str
    critical: bool
    """True if its window is hard and it whistles; else it has a timer and keeps warm."""
    prepare: int
    cook: int
    """Ticks on the stove until the signal, by the recipe."""
    finish: int
    lasts: int
    """Ticks after the signal in which it can be finished: the window plus the time it keeps warm."""
    jitter: Time
    """Delay of the whistle relative to the recipe."""
    state: str = "raw"
    """raw, prepared, cooking, ready, then done."""
    staged: Time = 0
    signal: Time = 0
    finished: Time = 0
    quality: float = 0.0
    work: Work | None = None
    """Its work on the stove: cooking, then the window."""

    @property
    def due(self) -> Time:
        """Deadline for finishing it, after its signal."""
        return self.signal + self.lasts

    @property
    def on_the_stove(self) -> bool:
        return self.state in ("cooking", "ready")


def draw_case(settings: KitchenSettings, draw: Random) -> str:
    """The case of an episode; with one dish there is none."""
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
            # Its signal is planned one gap after the last, although it comes to the stove later.
            later = dish.prepare + settings.staging + _BETWEEN
            dish.cook = max(_SHORTEST, dishes[-1].cook + draw.randint(*gap) - later)
        dishes.append(dish)
    return dishes


def _families(settings: KitchenSettings, case: str, draw: Random) -> list[tuple[str, tuple[int, int] | None]]:
    """The family of each dish, and the planned gap to the signal before."""
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


_RESTING = ("", "tutor", "wait")
"""Activities that leave the hands free for something else."""

Begin = Callable[[], object]


class Hands:
    """Name of what is in hand: work, something that can be interrupted, or nothing."""

    def __init__(self) -> None:
        self.name = ""
        self._queue: deque[Begin] = deque()
        self._fresh = True
        """True until something is requested in this turn."""

    def turned(self) -> None:
        """Begin a new turn."""
        self._fresh = True

    def ask(self, begin: Begin) -> None:
        """Begin something now, or when the hands are free for it."""
        if self._fresh:
            self._queue.clear()
        if self.idle or (self._fresh and self.name in _RESTING):
            begin()
        else:
            self._queue.append(begin)
        self._fresh = False  # unless it was refused: then the next request is the turn's first

    def ask_first(self, begin: Begin) -> None:
        """Begin something before all other requests."""
        if self.name in _RESTING:
            begin()
        else:
            self._queue.appendleft(begin)

    def take(self, name: str) -> None:
        self.name = name

    def next(self) -> list[str]:
        """The work in hand is done: begin the next request. Returns what could not be begun."""
        self.name = ""
        refused = []
        while self._queue and not self.name:
            try:
                self._queue.popleft()()
            except InterventionRefused as refusal:
                refused.append(str(refusal))
        return refused

    @property
    def idle(self) -> bool:
        return not self.name

    @property
    def waiting(self) -> bool:
        """Whether requests are waiting."""
        return bool(self._queue)

    def forget(self) -> None:
        """Drop all waiting requests."""
        self._queue.clear()
