"""Reads what names a plugin and its versions, as pip does: `agentfw-tea`, `agentfw-tea==1.2`, `agentfw-tea>=1.2,<2`.

requirement = parse_requirement("agentfw-tea>=1.2")
is_met(requirement, "1.3.0")    # True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["is_met", "parse_requirement"]


def parse_requirement(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f'"{text}" names no plugin: {reason}', fix="write NAME, or NAME with versions: 'agentfw-tea>=1.2,<2'"
        ) from None


def is_met(requirement: Requirement, version: str) -> bool:
    """Whether an installed version meets a requirement. A version that can't be parsed never does."""
    from packaging.version import InvalidVersion

    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return not requirement.specifier
