"""What the programs that measure share: options, tables, intervals, clocks and processes."""

from __future__ import annotations

from .figures import Figure, beside, bounds_of, difference_of, mean_of, shown, triple_of
from .laboratory import make_model, model_size
from .places import ROOT, TESTS
from .processes import AGENTFW, answer_of, free_port, memory_of_this
from .program import Options, tell
from .repetitions import Stopwatch, ratio_of, ratio_span, timed
from .runs import once
from .tables import print_aligned, print_markdown

__all__ = [
    "AGENTFW",
    "ROOT",
    "TESTS",
    "Figure",
    "Options",
    "Stopwatch",
    "answer_of",
    "beside",
    "bounds_of",
    "difference_of",
    "free_port",
    "make_model",
    "mean_of",
    "memory_of_this",
    "model_size",
    "once",
    "print_aligned",
    "print_markdown",
    "ratio_of",
    "ratio_span",
    "shown",
    "tell",
    "timed",
    "triple_of",
]
