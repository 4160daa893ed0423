"""What the programs that measure share: options, tables, intervals, clocks, processes and runs.

What only some of them need is in modules of its own, such as `kills` and `question_sets`.
"""

from __future__ import annotations

from .figures import Figure, beside, bounds_of, difference_of, mean_of, shown, triple_of
from .laboratory import make_model, model_size
from .places import ROOT, TESTS
from .processes import AGENTFW, answer_of, free_port, memory_of_this, with_laboratory
from .program import Options, tell
from .repetitions import Stopwatch, ratio_of, ratio_span, timed
from .runs import once, outcomes_of_references, played, runs_below, spec_named
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
    "outcomes_of_references",
    "played",
    "print_aligned",
    "print_markdown",
    "ratio_of",
    "ratio_span",
    "runs_below",
    "shown",
    "spec_named",
    "tell",
    "timed",
    "triple_of",
    "with_laboratory",
]
