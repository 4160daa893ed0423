"""Creates the components of a run from a resolved spec.

They are created together, and opened and closed together.

    resolved, sources = resolve(spec, host)
    assembly = assemble(resolved, host)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..engagement import Engagement
from ..engine import Engine, make_engine
from ..environment import Environment
from ..episode import Episode, Task, Turn
from ..errors import AgentfwError, UsageError
from ..host import Host
from ..interfaces import parse_interface
from ..memory import Memory
from ..operation import PlayedEpisode, Scoring
from ..policy import Policy
from ..policy_agent import PolicyAgent
from ..request import Sampling
from ..scores import RewardModel, Schedule, Score, parse_schedule
from ..session import Session, SessionEnvironment
from ..tool import Tool, Toolbox
from ..tracker import Tracker
from .components.creation import Guard, make
from .components.guarded import GuardedMemory, GuardedPolicy, GuardedReward, GuardedToolbox
from .components.run_environment import RunEnvironment
from .components.spending import Spending
from .components.tracing import Clock, Trace, TracedMemory, TracedPolicy, TracedTool
from .learning.update import Learning, check_trainable, make_learning
from .spec.run_spec import Choice, RunSpec

__all__ = ["Assembly", "assemble"]

Watch = Callable[[Episode, Turn], object]
"""Is called with each turn as soon as it is over."""


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: RunSpec
    host: Host
    engine: Engine
    environment: RunEnvironment
    policy: GuardedPolicy
    memories: list[GuardedMemory]
    toolboxes: list[GuardedToolbox]
    tools: list[Tool]
    rewards: dict[str, GuardedReward]
    weights: dict[str, Schedule]
    trackers: list[tuple[Guard, Tracker]]
    learning: Learning | None
    """None without an optimizer."""
    spending: Spending
    trace: Trace | None = None
    """Is told of each operation, where a tracker wants to know."""

    async def play(self, task: Task, policy: Policy, sampling: Sampling, watch: Watch | None) -> Episode:
        """Play one episode with an agent of its own in a fresh world, and check its figures."""
        environment, clock = make(self.host, "environment", self.spec.environment, Environment, "environment"), Clock()
        finish, outcome = "", dict[str, float]()
        try:
            # Everybody else who takes part has a guard of their own.
            with clock, self.environment.guard.calling("", task.id):
                if isinstance(environment, SessionEnvironment):
                    episode = await self._led(environment, task, policy, sampling, watch)
                else:
                    episode = await self._engaged(environment, task, policy, sampling, watch)
            finish, outcome = episode.finish, dict(episode.outcome)
        finally:
            if self.trace is not None:
                name = self.spec.environment.name
                self.trace(PlayedEpisode(task=task, name=name, finish=finish, outcome=outcome, **clock.times))
        self.environment.check(episode)
        return episode

    async def score(self, name: str, group: Sequence[Episode]) -> Sequence[Score]:
        """Score a group with one reward model."""
        clock, scores = Clock(), tuple[Score, ...]()
        try:
            with clock:
                scores = tuple(await self.rewards[name].score(group))
            return scores
        finally:
            if self.trace is not None:
                for episode in group:
                    own = tuple(score for score in scores if score.episode == episode.id)
                    self.trace(Scoring(task=episode.task, name=name, scores=own, **clock.times))

    async def _engaged(
        self, environment: Environment, task: Task, policy: Policy, sampling: Sampling, watch: Watch | None
    ) -> Episode:
        spec = self.spec
        tools = self.tools if self.trace is None else [TracedTool(tool, task, self.trace) for tool in self.tools]
        agent = PolicyAgent(
            self._traced(policy),
            tools,
            self._traced_memories(),
            sampling=sampling,
            window=spec.window,
            recall=spec.recall,
        )
        engagement = Engagement(
            environment,
            agent,
            parse_interface(spec.interface),
            time_per_token=spec.time_per_token,
            horizon=spec.horizon or float("inf"),
            max_turns=spec.max_turns,
            max_events=spec.max_events,
            max_events_per_instant=spec.max_events_per_instant,
            watch=watch,
        )
        return await engagement.run(task)

    async def _led(
        self, environment: SessionEnvironment, task: Task, policy: Policy, sampling: Sampling, watch: Watch | None
    ) -> Episode:
        # What the run says of sampling holds, whatever the program asks for: a training depends on it.
        session = self.session(task, policy, sampling, watch, sampling_wins=True)
        await environment.play(session)
        if session.failure is not None:
            raise session.failure
        return session.end("finished")

    def session(
        self,
        task: Task,
        policy: Policy,
        sampling: Sampling,
        watch: Watch | None = None,
        *,
        sampling_wins: bool = False,
    ) -> Session:
        """A session with the run's policy and memories."""
        spec = self.spec
        return Session(
            self._traced(policy),
            task,
            environment=spec.environment.name,
            memories=self._traced_memories(),
            recall=spec.recall,
            sampling=sampling,
            sampling_wins=sampling_wins,
            max_turns=spec.max_turns,
            watch=watch,
        )

    def _traced(self, policy: Policy) -> Policy:
        if self.trace is None:
            return policy
        teacher = self.learning is not None and policy is self.learning.teacher and self.spec.teacher
        return TracedPolicy(policy, (teacher or self.spec.policy).name, self.trace)

    def _traced_memories(self) -> Sequence[Memory]:
        if self.trace is None:
            return self.memories
        named = zip(self.memories, self.spec.memories, strict=True)
        return [TracedMemory(memory, choice.name, self.trace) for memory, choice in named]

    def measured_tasks(self) -> list[Task]:
        """The tasks that the run's results come from."""
        count, _, split = self.spec.measured
        return self.environment.tasks(count, split)

    def asked(self) -> dict[str, Policy]:
        """All policies that take part, by what they are called in errors."""
        asked = {f"the policy {self.spec.policy.name}": self.policy.policy}
        if self.spec.teacher is not None and self.learning is not None and self.learning.teacher is not None:
            asked[f"the teacher {self.spec.teacher.name}"] = self.learning.teacher.policy
        judges = {f"the judge of {name}": reward.model.policy for name, reward in self.rewards.items()}
        return asked | {name: judge for name, judge in judges.items() if judge is not None}

    def owners(self) -> dict[str, Guard]:
        """The modules of the components that share the event loop. A learner may take as long as it needs."""
        guarded: list[tuple[object, Guard]] = [(self.environment.environment, self.environment.guard)]
        guarded += [(self.policy.policy, self.policy.guard)]
        guarded += [(memory.memory, memory.guard) for memory in self.memories]
        guarded += [(toolbox.toolbox, toolbox.guard) for toolbox in self.toolboxes]
        guarded += [(reward.model, reward.guard) for reward in self.rewards.values()]
        guarded += [(tracker, guard) for guard, tracker in self.trackers]
        return {type(component).__module__: guard for component, guard in guarded}

    async def open(self, folder: Path) -> None:
        """Start the components: memories and reward models in the run's folder, and the servers of toolboxes."""
        self.policy.open(folder)
        for memory in self.memories:
            memory.open(folder)
        for model in self.rewards.values():
            model.open(folder)
        # Wait for all of them even if one fails: a toolbox that is still opening can't be closed.
        answers = await asyncio.gather(*(toolbox.open() for toolbox in self.toolboxes), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            self.tools += answer
        names = [tool.action.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                f"two tools are called {', '.join(twice)}",
                fix="start a new run without one of them, or with a prefix for those of one toolbox, "
                "such as --set tool.NAME.prefix=files_",
            )

    async def close(self) -> None:
        """Close every component, even if closing one of them fails."""

        async def close(component: Policy | Memory | Toolbox | RewardModel | Learning) -> None:
            try:
                await component.close()
            except AgentfwError as error:
                self.host.notes.append(error.message)

        if self.learning is not None:
            await close(self.learning)
        components: list[Policy | Memory | Toolbox | RewardModel]
        components = [self.policy, *self.memories, *self.toolboxes, *self.rewards.values()]
        await asyncio.gather(*(close(component) for component in components))
        await asyncio.to_thread(self.engine.close)


def assemble(spec: RunSpec, host: Host) -> Assembly:
    """Create the components of a resolved spec."""
    engine = make_engine(spec.engine)
    host.provide(engine=engine)

    def guard(kind: str, choice: Choice) -> Guard:
        return Guard(host, kind, choice.name, spec.deadline, choice.label)

    made = make(host, "policy", spec.policy, Policy, "policy")
    if spec.optimizer is not None:
        check_trainable(made, spec.policy.name)
    spending = Spending(spec.budget)
    policy = GuardedPolicy(made, guard("policy", spec.policy), spending)
    assembly = Assembly(
        spec=spec,
        host=host,
        engine=engine,
        environment=RunEnvironment(spec, host),
        policy=policy,
        memories=[
            GuardedMemory(make(host, "memory", choice, Memory), guard("memory", choice)) for choice in spec.memories
        ],
        toolboxes=[GuardedToolbox(make(host, "tool", choice, Toolbox), guard("tool", choice)) for choice in spec.tools],
        tools=[],
        rewards={
            choice.name: GuardedReward(make(host, "reward", choice, RewardModel), guard("reward", choice), spending)
            for choice in spec.rewards
        },
        weights={choice.name: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[(guard("tracker", choice), make(host, "tracker", choice, Tracker)) for choice in spec.trackers],
        learning=make_learning(spec, host, engine, policy),
        spending=spending,
    )
    spending.check(assembly.asked())
    return assembly
