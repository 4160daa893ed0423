"""What can be known of the machine: the probability that it is broken, from the noises and the silence between them.

A belief changes at every tick, also when nothing is heard: a broken machine makes more noise than a sound one, so that
silence is news as well. It is Bayes' rule, with nothing left out (appendix B.2 of the engagement-process paper).

    rates = Rates(breaks=0.02, rattles=0.3, hums=0.1)
    rates.after(0.0, noise=True)            # a noise one tick after a repair
    rates.after_silence(0.5, ticks=10)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities, each of one tick."""

    breaks: float
    """A sound machine breaks."""
    rattles: float
    """A broken one makes a noise."""
    hums: float
    """A sound one makes a noise."""

    def broken_next(self, belief: float) -> float:
        """The belief one tick later, before anything is heard."""
        return belief + (1 - belief) * self.breaks

    def noise_next(self, belief: float) -> float:
        """The probability that the next tick makes a noise."""
        broken = self.broken_next(belief)
        return broken * self.rattles + (1 - broken) * self.hums

    def after(self, belief: float, *, noise: bool) -> float:
        """The belief one tick later, with or without a noise."""
        broken, likely = self.broken_next(belief), self.noise_next(belief)
        if noise:
            return broken * self.rattles / likely if likely else broken
        return broken * (1 - self.rattles) / (1 - likely) if likely < 1 else broken

    def after_silence(self, belief: float, ticks: int) -> float:
        """The belief after so many ticks without a noise."""
        for _ in range(ticks):
            belief = self.after(belief, noise=False)
        return belief
