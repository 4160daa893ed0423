"""What agentfw-papers offers, so that an error about a missing name can say what to install.

A test of agentfw-papers compares this with what it registers.
"""

from __future__ import annotations

from agentfw import KnownPlugin

__all__ = ["PAPERS"]

PAPERS = KnownPlugin("agentfw-papers", {}, folder="plugins/papers")
