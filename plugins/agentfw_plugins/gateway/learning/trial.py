"""Judges a version that a share of the sessions gets by the thumbs on its own answers.

What nobody has rated, the test on held-out answers can't see. So a version that passed it is served beside the one that
it would replace, to users at the same time. It replaces it only if its answers are liked at least as often.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .comparison import LEAST, shuffled
from .ratings import Rating
from .version_file import VersionFile, named


def judge(file: VersionFile, ratings: Sequence[Rating]) -> None:
    """End the trial when as many answers are rated as a new version takes, and some of each version."""
    with file.change() as state:
        during = [one for one in ratings if one.at > state.since]
        own = [one.liked for one in during if one.version == named(state.canary)]
        others = [one.liked for one in during if one.version == named(state.served)]
        if len(during) < state.every or min(len(own), len(others)) < LEAST:
            state.said = f"{named(state.canary)} is on trial: {len(own)} of its answers are rated, {len(others)} others"
            return
        values = np.asarray([*others, *own], float)
        difference, p_value = shuffled(values, np.arange(len(values)) < len(others))
        why = (
            f"liked {np.mean(own):.2f} of {len(own)} answers of the canary and {np.mean(others):.2f} of {len(others)} "
            f"others in the same time (worse: p = {p_value:.4f})"
        )
        canary = state.version(state.canary)
        state.judge(worse=difference > 0, why=why)
        state.said = f"{named(canary.number)} {canary.outcome}: {why}"
