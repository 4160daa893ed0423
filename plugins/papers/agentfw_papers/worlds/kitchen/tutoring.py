"""The tutoring problems of an episode, explained one after the other; each can be interrupted and resumed.

A problem is explained when its full length was said, or when the tutor ended by itself. Only then it pays.

    lessons = Lessons(world, problems, tutor, over)
    lessons.go_on(tokens=40)        # calls over("Q1 is put aside") after 40 tokens
    lessons.put_aside()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from agentfw import Policy, Turn, World
from agentfw.timeline import Scheduled, Work

from .tutor_seat import Stretch, restarts
from .tutoring_problems import Problem


class Lessons:
    """The problems to explain and their progress."""

    def __init__(
        self, world: World, problems: Sequence[Problem], tutor: Policy | None, over: Callable[[str], object]
    ) -> None:
        """`over` is called when explaining ends by itself, with the reason."""
        self.problems = problems
        self._world, self._tutor, self._over = world, tutor, over
        self._work: Work | None = None
        """The current problem. While it is being explained, the agent is busy."""
        self._stretch: Stretch | None = None
        self._limit: Scheduled | None = None
        self._stretches = self._interrupted = self._resumed = self._restarted = 0

    @property
    def current(self) -> Problem | None:
        return next((problem for problem in self.problems if not problem.done), None)

    @property
    def running(self) -> bool:
        return self._stretch is not None

    def go_on(self, tokens: int | None = None) -> None:
        """Start or continue explaining the current problem, to its end or for some more tokens."""
        problem = self.current
        assert problem is not None
        self._lift_limit()
        if self._stretch is None:
            self._stretches += 1
            if self._work is None:
                self._work = self._world.work(problem.name, inf)
            else:
                self._resumed += 1
                self._work.resume()
            self._stretch = Stretch(self._world, problem, self._tutor, self._said_its_say)
        if tokens is not None and tokens < problem.left:
            self._limit = self._world.after(tokens, self._limit_reached)

    def put_aside(self) -> None:
        """Stop explaining; what was said is kept."""
        self._lift_limit()
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return
        turn = stretch.stop()
        problem = self._note(turn) if turn is not None else self.current
        assert problem is not None
        # It may have ended at this very moment.
        if problem.left == 0:
            self._complete(problem)
        else:
            assert self._work is not None
            self._work.interrupt()
            self._interrupted += 1

    def figures(self) -> Mapping[str, float]:
        """Counts of stretches: all, interrupted, resumed and restarted."""
        return {
            "problems": float(sum(problem.done for problem in self.problems)),
            "stretches": float(self._stretches),
            "interrupted": float(self._interrupted),
            "resumed": float(self._resumed),
            "restarted": float(self._restarted),
        }

    def _limit_reached(self) -> None:
        problem = self.current
        assert problem is not None
        self._limit = None
        self.put_aside()
        self._over(f"{problem.name} is {'explained' if problem.done else 'put aside'}")

    def _lift_limit(self) -> None:
        if self._limit is not None:
            self._world.cancel(self._limit)
            self._limit = None

    def _said_its_say(self, turn: Turn) -> None:
        self._stretch = None
        self._lift_limit()
        problem = self._note(turn)
        if turn.count:
            self._complete(problem)
            self._over(f"{problem.name} is explained")
        else:  # saying nothing explains nothing
            assert self._work is not None
            self._work.interrupt()
            self._over(f"the tutor has nothing to say about {problem.name}")

    def _note(self, turn: Turn) -> Problem:
        """Record what was said."""
        problem = self.current
        assert problem is not None
        self._restarted += bool(problem.said) and restarts(problem, turn.text)
        problem.said += turn.text
        problem.spent += turn.count
        return problem

    def _complete(self, problem: Problem) -> None:
        assert self._work is not None
        work, self._work = self._work, None
        problem.done = True
        work.complete()
        self._world.utility(1.0, "problem")
