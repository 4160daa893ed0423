"""Versions of single users: for whom is one better than what everybody gets?

For a user with enough ratings, a version is trained that goes on from the served one with their own ratings alone. It
is compared with the served one on their own held-out answers, by the same importance-weighted test (comparison), and
kept only if it is better by WORTH. It answers to them alone: no request can ask for it by name.

How many ratings are enough follows from what the test can show. Among n held-out answers of which k were liked, no
p-value is below 1 / C(n, k). That has to be less than the level which is left for one of AT_ONCE users. Users who are
looked at together share the level by Holm's method: the chance that any of them gets a version by luck is at most 0.05
in each attempt. A user who got none is looked at again once half of their ratings are new, so that there are few
attempts that luck could win.

When others get a new version, those of single users are tested against it, on the same terms, and dropped if they are
no longer better. The ratings of users who have their own take no part in the versions of the others meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import comb
from pathlib import Path

from agentfw.errors import AgentfwError
from agentfw.printing.out import counted

from .comparison import LEAST, LEVEL
from .making import Look, Making
from .ratings import MOST, Rating, comparable, fresh
from .version_file import DROPPED, REPLACED, SERVED, State, Version, VersionFile

AT_ONCE = 8
"""Maximum number of users that an attempt looks at: those with the most ratings. The next attempt takes the others."""
WORTH = 0.05
"""How much larger the share of liked answers must be. A smaller gain can be significant, but nobody would notice it."""
_NEW = 0.5  # share of a user's ratings that must be new before they are looked at again


def can_show(held_out: Sequence[Rating]) -> bool:
    """Whether the test of one among several users could find that a version is better."""
    likes = sum(one.liked for one in held_out)
    return min(likes, len(held_out) - likes) >= LEAST and comb(len(held_out), likes) * LEVEL > AT_ONCE


def chosen(state: State, ratings: Sequence[Rating]) -> list[Look]:
    """Whom to look at: first whose version was compared with one that isn't served any more, then who is due."""
    by_user, trains = defaultdict[str, list[Rating]](list), list[Look]()
    for one in comparable(ratings, state):
        by_user[one.user].append(one)
    has = state.own
    tested = [one for one in has.values() if one.before != state.served]
    tests = [Look(by_user.pop(one.user, [])[-MOST:], one.user, one, trains=False) for one in tested]
    for user, theirs in by_user.items() if state.owns else ():
        look = Look(theirs[-MOST:], user, has.get(user))
        is_due = fresh(look.ratings, state.tried.get(user, 0.0)) >= _NEW * len(look.ratings)
        if user and is_due and can_show(look.held_out):
            trains.append(look)
    return [*tests, *sorted(trains, key=lambda one: -len(one.ratings))]


async def for_single_users(file: VersionFile, state: State, ratings: Sequence[Rating], spec: Path | None) -> None:
    """Look at as many users as an attempt takes, and serve those their own for whom it is better."""
    waiting = chosen(state, ratings)
    looks, made = waiting[:AT_ONCE], dict[str, Version]()
    making = Making(file, state, spec)
    with making.room() as room:
        try:
            troubles = await _train(making, [one for one in looks if one.trains], room)
            tested = [one for one in looks if one.adapter is not None or not one.trains]
            await making.compare([one for one in tested if can_show(one.held_out)])
        except AgentfwError as error:
            with file.change() as now:
                now.due, now.said = False, f"no version of a single user: {error.message}"
            return
        mark_better(looks)
        for one in looks:
            if one.is_better and one.trains:
                made[one.user] = making.version(state.next_number + len(made), one, SERVED)
    with file.change() as now:
        if now.removals != state.removals or now.served != state.served:
            now.look_at_own()  # what these were made from, or compared with, isn't so any more
            return
        dropped = _note(now, looks, made)
        now.due = len(waiting) > len(looks) or (now.owns and bool(dropped))
        said = [f"own versions: {', '.join(one.name for one in made.values()) or 'nobody'}"]
        said += [f"no longer better: {', '.join(dropped)}"] if dropped else []
        now.said = "; ".join([f"{counted(len(looks), 'user')} looked at", *said, *troubles])


async def _train(making: Making, looks: Sequence[Look], room: Path) -> list[str]:
    troubles = list[str]()
    for place, one in enumerate(looks):
        try:
            values = making.values(one.taught, room / str(place))
            if making.trains_all(values):
                return ["a version of a single user has to be an adapter, and this training is one of all weights"]
            await making.train(one, values, room / str(place))
        except AgentfwError as error:  # the others are not concerned
            troubles.append(f"{one.user}: {error.message}")
    return troubles


def mark_better(looks: Sequence[Look]) -> None:
    """Mark whose version is better by more than luck, among all that were looked at together (Holm, 1979)."""
    tested = [(one.comparison.p_value, place) for place, one in enumerate(looks) if one.comparison is not None]
    for rank, (p_value, place) in enumerate(sorted(tested)):
        level, comparison = LEVEL / (len(looks) - rank), looks[place].comparison
        if p_value >= level or comparison is None:
            return
        looks[place].is_better = comparison.is_better(level, by=WORTH)


def _note(state: State, looks: Sequence[Look], made: Mapping[str, Version]) -> list[str]:
    """Write down what was found. Returns the versions that are dropped."""
    dropped, known = list[str](), {one.number: one for one in state.versions}
    for look in looks:
        has = known.get(look.has.number) if look.has is not None else None
        if look.trains:
            state.tried[look.user] = max(one.at for one in look.ratings)
            if has is not None and look.user in made:
                has.outcome = REPLACED
        elif has is not None:
            if look.comparison is not None:
                has.test, has.why = look.comparison.figures, str(look.comparison)
            if look.is_better:
                has.before = state.served
            else:
                has.outcome = DROPPED
                dropped.append(has.name)
                state.tried.pop(look.user, None)
    state.versions += made.values()
    return dropped
