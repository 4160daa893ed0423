"""The tutoring problems of an episode, explained one after the other; each can be interrupted and resumed.

A problem is explained when its full length was said, or when the tutor ended by itself. Only then it pays.

    lessons = Lessons(world, problems, tutor, over)
    lessons.go_on(tokens=40)        # calls over("Q1 is put aside") after 40 tokens
    lessons.put_aside()

The tutor: a seat of its own on the kitchen's clock, where any policy explains at one token per tick.

What was said stays said. An interrupted explanation keeps its words, and the next stretch is asked to continue from
there. Whether it does is counted, not assumed.

    stretch = Stretch(world, problem, policy, over)      # it runs, and calls over(turn) when it has said its say
    turn = stretch.stop()                                # what was out when it was put aside

Each stretch is an engagement, with a turn on record like any other: its text, its tokens, and whether it was
interrupted. The tutor knows nothing of the kitchen. While the agent decides, the tutor goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf
from typing import Any

from agentfw import (
    Agent,
    Decision,
    Engagement,
    Environment,
    Episode,
    Generation,
    Host,
    Message,
    Moment,
    Policy,
    Request,
    Task,
    Turn,
    World,
)
from agentfw.request import Brief, Sampling
from agentfw.timeline import Scheduled, Work

from .tutoring_problems import Problem

_TAIL = 1200
"""Number of characters of the earlier explanation shown to the tutor."""
_TELLING = 6
"""Number of words that identify the beginning of an explanation."""

_GOAL = """You are a patient tutor of mathematics. You explain worked exercises in plain prose, step by step.

Write only the explanation itself: no headings, no tags, no remarks about yourself or about being interrupted. If the
explanation has begun already, go on exactly where it ends, in the middle of a sentence if need be, and don't repeat or
sum up what was said."""


class Stretch:
    """One uninterrupted stretch of explaining a problem."""

    def __init__(self, world: World, problem: Problem, policy: Policy | None, over: Callable[[Turn], object]) -> None:
        self._turn: Turn | None = None
        agent = _Tutor(policy or _Written(problem), problem)
        self._engagement = Engagement(_Desk(over), agent, watch=self._began)
        above = getattr(world, "seat", "")
        self._engagement.start(
            world.timeline, world.episode, world.seeds.child("tutor"), seat=f"{above}/tutor" if above else "tutor"
        )

    def _began(self, episode: Episode, turn: Turn) -> None:
        self._turn = turn

    def stop(self) -> Turn | None:
        """Interrupt it. None if it hadn't begun to speak."""
        self._engagement.world.finish()
        return self._turn


class _Desk(Environment):
    """The tutor's own environment, which ends with its answer."""

    def __init__(self, over: Callable[[Turn], object]) -> None:
        self._over = over

    def begin(self, world: World, task: Task) -> None:
        self.world = world

    def goal(self) -> str:
        return _GOAL

    def time_per_token(self) -> float:
        return 1.0

    def turned(self, turn: Turn) -> None:
        self.world.finish()
        self._over(turn)


class _Tutor(Agent):
    def __init__(self, policy: Policy, problem: Problem) -> None:
        self.policy, self.problem = policy, problem

    def begin(self, task: Task, brief: Brief) -> None:
        self.task, self.brief = task, brief

    async def act(self, moment: Moment) -> Decision:
        messages = (Message("system", self.brief.goal), Message("user", _request(self.problem)))
        most = self.problem.left
        generation = await self.policy.generate(
            Request(messages, (), Sampling(max_tokens=most), moment, self.brief, self.task)
        )
        if generation.length > most:
            generation = generation.cut(most)
            generation.finish = "length"
        takes = self.policy.generation_time(generation, self.brief.time_per_token)
        return Decision((), takes, None, generation, messages)


def _request(problem: Problem) -> str:
    questions = "\n".join(f"{number}. {question}" for number, question in enumerate(problem.questions, start=1))
    lines = [f"Problem {problem.name}. Explain these exercises one after the other:", questions, ""]
    if problem.said:
        lines += [
            f"The explanation has begun, and about {problem.left} tokens are left for the rest. It ends with:",
            "",
            problem.said[-_TAIL:],
            "",
            "Go on from there.",
        ]
    else:
        lines.append(f"Nothing has been said yet. Take about {problem.left} tokens. Begin.")
    return "\n".join(lines)


class _Written(Policy):
    """A policy that says the written explanation from where it stopped."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    async def generate(self, request: Request) -> Generation:
        pieces = self.problem.pieces[self.problem.spent :]
        return Generation("".join(pieces), count=len(pieces), pieces=pieces, version="written")


def restarts(problem: Problem, text: str) -> bool:
    """Whether a text that should continue an explanation starts it again."""
    words = text.split()[:_TELLING]
    return len(words) == _TELLING and words == problem.said.split()[:_TELLING]


def load_tutor(name: str, settings: Mapping[str, Any]) -> Policy:
    """The policy of this name from the host, shared by all episodes of a process."""
    return _loaded(name, json.dumps(settings, sort_keys=True))


@cache
def _loaded(name: str, settings: str) -> Policy:
    policy = _host().create("policy", name, json.loads(settings), where="environment.tutor_settings")
    assert isinstance(policy, Policy)
    return policy


@cache
def _host() -> Host:
    return Host.load()


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
