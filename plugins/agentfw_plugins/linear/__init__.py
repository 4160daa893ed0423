"""Policies that are a handful of weights, and their learner: trained in seconds with exact gradients, without torch.

A policy describes each choice as a `Decision`, draws from its probabilities, and writes the decisions of a turn into
the turn's text. `LinearLearner` finds them there.

    decision = Decision(("fame",), ((0.0,), (1.0,)), choice=1)
    text = write_decisions([decision])
"""

from .decision import Decision, read_decisions, read_weights, write_decisions
from .learner import LinearLearner, Trainable

__all__ = ["Decision", "LinearLearner", "Trainable", "read_decisions", "read_weights", "write_decisions"]
