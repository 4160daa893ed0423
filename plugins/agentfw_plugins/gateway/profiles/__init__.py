"""What programs send besides what their user typed: who the user is, which session it is, and what is context.

| module | what it holds |
| --- | --- |
| profile.py | `Profile`, and what is told by structure, of programs that nobody knows |
| programs.py | the profiles that ship |

A further profile is a class that derives from `Profile`, named by its distribution in a group of entry points. It comes
before those that ship:

    [project.entry-points."agentfw.profiles"]
    my-agent = "my_package.profile:MyAgent"
"""

from __future__ import annotations

import logging
from functools import cache, partial

from agentfw.boundary.gate import ImportFailed, let_in
from agentfw.boundary.metadata import EntryPoint, entry_points

from .profile import Profile, Sent, Told, typed
from .programs import PROGRAMS

__all__ = ["Profile", "Sent", "Told", "profiles", "told_by", "typed"]

logger = logging.getLogger(__name__)

GROUP = "agentfw.profiles"
_UNKNOWN = Profile()


@cache
def profiles() -> tuple[Profile, ...]:
    """All profiles. One that can't be imported is named in the log, and the others are there."""
    found = list[Profile]()
    for entry in entry_points(GROUP):
        who = f'profile "{entry.name}" of {entry.distribution} {entry.version}'
        try:
            made = let_in(who, partial(_made, entry))
        except ImportFailed as failure:
            logger.warning("%s %s", who, failure)
            continue
        if not isinstance(made, Profile):
            logger.warning("%s is no Profile", who)
            continue
        made.name = entry.name
        found.append(made)
    return (*found, *PROGRAMS)


def _made(entry: EntryPoint) -> object:
    made = entry.load()
    return made() if isinstance(made, type) else made


def told_by(sent: Sent) -> Told:
    """What a request says of its user, by the first profile that fits, or else by its structure."""
    for profile in profiles():
        try:
            if profile.fits(sent):
                return profile.told(sent)
        except Exception as error:  # a request is answered, whatever a profile of others makes of it
            logger.warning("the profile %s failed: %s: %s", profile.name, type(error).__name__, error)
    return _UNKNOWN.told(sent)
