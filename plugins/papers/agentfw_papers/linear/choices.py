"""What a policy of a few weights decides in one turn, and the answer that has these decisions in it.

choices = Choices(self.weights, request)
place = choices.decide(("fame",), ((0.0,), (1.0,)))
return choices.generation(calls, version="start")
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from agentfw import Generation, Intervention, Request

from .decision import Decision, Weights, write_decisions


class Choices:
    """Draws each decision from its probabilities, or takes the likeliest option at temperature 0."""

    def __init__(self, weights: Weights, request: Request) -> None:
        sampling = request.sampling
        seed = request.task.seed if sampling.seed is None else sampling.seed
        self._weights, self._messages = weights, len(request.messages)
        self._generator = None if sampling.temperature == 0 else Random(f"{seed} {self._messages}")
        self._made: list[Decision] = []

    def decide(self, names: tuple[str, ...], options: tuple[tuple[float, ...], ...]) -> int:
        """The place of the option that is chosen. An option has a value for each of the names."""
        shares = Decision(names, options, 0).probabilities(self._weights)
        if self._generator is None:
            choice = shares.index(max(shares))
        else:
            (choice,) = self._generator.choices(range(len(shares)), shares)
        self._made.append(Decision(names, options, choice))
        return choice

    def flip(self, name: str) -> bool:
        """Decide whether to do something, whose log-odds are the weight of this name."""
        return bool(self.decide((name,), ((0.0,), (1.0,))))

    def generation(self, calls: Iterable[Intervention], version: str) -> Generation:
        """An answer with these calls, which `LinearLearner` can learn from."""
        # A turn in which nothing was decided is a choice of one option, so that every turn has a token.
        made = self._made or [Decision((), ((),), 0)]
        return Generation(
            text=write_decisions(made),
            calls=tuple(calls),
            said="",  # decisions are for the learner
            count=len(made),
            prompt_ids=tuple(range(self._messages)),  # there is no vocabulary, so each message is a token
            token_ids=tuple(one.choice for one in made),
            logprobs=tuple(one.logprob(self._weights) for one in made),
            version=version,
            temperature=0.0 if self._generator is None else 1.0,
        )
