"""Policies that are a handful of weights, and their learner: trained in seconds with exact gradients, without torch.

A policy describes each choice by the features of its options. `Choices` draws from the probabilities and writes the
decisions of a turn into the turn's text, where `LinearLearner` finds them.

    choices = Choices(self.weights, request)
    place = choices.decide(("fame",), ((0.0,), (1.0,)))
    return choices.generation(calls, version="start")
"""

from .decision import Choices, Decision, read_decisions, read_weights, write_decisions
from .learner import LinearLearner, Trainable

__all__ = ["Choices", "Decision", "LinearLearner", "Trainable", "read_decisions", "read_weights", "write_decisions"]
