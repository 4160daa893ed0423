"""Reads a merchant's wishes from what a policy is shown: the lines that the memory recalls, and the profile.

>>> recalled_wishes("- s12: For products, prefer products at stable prices (tools: plan; for: products)")
{'steady': False}
>>> recalled_wishes("- s13: For products, avoid products at stable prices (tools: plan; for: products)")
{}
>>> stated_wishes("products: wants products at stable prices and with a high margin")
['margin', 'steady']
"""

from __future__ import annotations

import re

from .tastes import TASTES

_RECALLED = re.compile(r"^- (s\d+): (For \w+, (?:prefer|give|provide) [^(\n]*)(\(.*\))?$", re.MULTILINE)
_STATED = re.compile(r"^products: wants products (.*)$", re.MULTILINE)
_SHARED = "wish of several users"


def recalled_wishes(shown: str) -> dict[str, bool]:
    """The recalled tastes, the best match first, and whether each is a wish of several merchants."""
    return {
        taste.name: _SHARED in (found[3] or "")
        for found in _RECALLED.finditer(shown)
        for taste in TASTES.values()
        if taste.words in found[2]
    }


def stated_wishes(shown: str) -> list[str]:
    """The tastes that the profile names."""
    found = _STATED.search(shown)
    return [taste.name for taste in TASTES.values() if found and taste.words in found[1]]
