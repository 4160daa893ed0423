"""Creates the components of a run from a resolved spec. They are created together, and opened and closed together.

The run asks one instance of its environment for tasks and references. Episodes are played in new ones.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from ..boundary.crossing import (
    Guarded,
    GuardedEnvironment,
    GuardedMemory,
    GuardedPolicy,
    GuardedReward,
    GuardedToolbox,
    GuardedTracker,
    Trace,
    timed,
    traced,
)
from ..boundary.guard import in_thread, use_daemon_threads
from ..engine import Engine, make_engine
from ..environment import Environment
from ..episode import Episode, Task, Turn
from ..errors import AgentfwError, UsageError
from ..host import Host
from ..interfaces import parse_interface
from ..memory import Memory
from ..policy import Policy
from ..request import Sampling
from ..scores import LARGEST, RewardModel, Score
from ..tool import Tool, Toolbox
from ..tracker import PlayedEpisode, Scoring
from ..turns.engagement import Engagement
from ..turns.policy_agent import PolicyAgent
from ..turns.session import Session, SessionEnvironment
from .deciding import Decisions, Spending
from .learning import Learning, make_learning
from .records.call_record import CallRecord
from .records.journal import LongTexts
from .spec.run_spec import Choice, RunSpec
from .spec.weights import Schedule, parse_schedule

Part = TypeVar("Part", bound=Guarded)

Watch = Callable[[Episode, Turn], object]  # is called with each turn as soon as it is over


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: RunSpec
    host: Host
    engine: Engine
    environment: GuardedEnvironment
    policy: GuardedPolicy
    memories: list[GuardedMemory]
    toolboxes: list[GuardedToolbox]
    tools: list[Tool]
    rewards: dict[str, GuardedReward]
    weights: dict[str, Schedule]
    trackers: list[GuardedTracker]
    learning: Learning | None
    """None without an optimizer."""
    spending: Spending
    decisions: Decisions
    texts: LongTexts
    calls: CallRecord
    models: dict[str, GuardedPolicy]
    """Models of a gateway besides its policy, by name."""
    trace: Trace | None = None
    """Is told of each operation, where a tracker wants to know."""
    _tasks: dict[tuple[int, str], list[Task]] = field(default_factory=dict)

    async def play(self, task: Task, policy: Policy, sampling: Sampling, watch: Watch | None) -> Episode:
        """Play one episode with an agent of its own in a fresh world, and check its figures."""
        environment = self.host.make("environment", self.spec.environment, Environment, "environment")
        policy, finish, outcome = self.surrounded(policy), "", dict[str, float]()

        def tell(times: dict[str, Any]) -> None:
            if self.trace is not None:
                name = self.spec.environment.name
                self.trace(PlayedEpisode(task=task, name=name, finish=finish, outcome=outcome, **times))

        # Everybody else who takes part has a guard of their own.
        guard, is_led = self.environment.guard, isinstance(environment, SessionEnvironment)
        with timed(tell), guard.calling("play()" if is_led else "", task.id):
            if isinstance(environment, SessionEnvironment):
                # What the run says of sampling holds, whatever the program asks for: a training depends on it.
                tools = self.tools if environment.calls_tools else ()
                session = self.session(task, policy, sampling, watch, leads_alone=True, tools=tools)
                await environment.play(session)
                if session.failure is not None:
                    raise session.failure
                episode = session.end("finished")
            else:
                guarded = GuardedEnvironment(environment, guard, episode=task.id)
                episode = await self._engaged(guarded, task, policy, sampling, watch)
            finish, outcome = episode.finish, dict(episode.outcome)
        # Those of the outcome may be NaN: not measured.
        episode.environment = self.spec.environment.name
        episode.utility = self._figure(episode.utility, "utility", episode.id)
        for name, value in episode.outcome.items():
            episode.outcome[name] = self._figure(value, name, episode.id, or_nan=True)
        return episode

    def _figure(self, value: object, name: str, episode: str, *, or_nan: bool = False) -> float:
        if isinstance(value, Real) and (abs(float(value)) <= LARGEST or (or_nan and math.isnan(value))):
            return float(value)
        raise self.environment.guard.error(
            f'gave {value!r} as "{name}" of episode {episode}',
            "fix the environment: a measure must be a finite number, at most 1e100, or NaN if it was not measured",
        )

    async def score(self, name: str, group: Sequence[Episode]) -> Sequence[Score]:
        """Score a group with one reward model."""
        scores = tuple[Score, ...]()

        def tell(times: dict[str, Any]) -> None:
            if self.trace is not None:
                for episode in group:
                    own = tuple(score for score in scores if score.episode == episode.id)
                    self.trace(Scoring(task=episode.task, name=name, scores=own, **times))

        with timed(tell):
            scores = tuple(await self.rewards[name].score(group))
        return scores

    async def learn(self, episode: Episode, reward: float) -> None:
        """Let the memories and the reward models learn from an episode."""
        for memory in self.memories:
            await memory.learn(episode, reward)
        for model in self.rewards.values():
            await model.learn(episode)

    async def _engaged(
        self, environment: Environment, task: Task, policy: Policy, sampling: Sampling, watch: Watch | None
    ) -> Episode:
        spec = self.spec
        tools, memories = self._traced_tools(self.tools, task), self._traced_memories()
        agent = PolicyAgent(policy, tools, memories, sampling=sampling, window=spec.window, recall=spec.recall)
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
            before_call=self.decisions.before_call,
        )
        return await engagement.run(task)

    def session(
        self,
        task: Task,
        policy: Policy,
        sampling: Sampling,
        watch: Watch | None = None,
        *,
        leads_alone: bool = False,
        write: Callable[[Session], object] | None = None,
        tools: Sequence[Tool] = (),
    ) -> Session:
        """A session with the run's policy and memories. With `leads_alone`, only a program of the run can use it."""
        spec = self.spec
        return Session(
            policy,
            task,
            environment=spec.environment.name,
            memories=self._traced_memories(),
            tools=self._traced_tools(tools, task),
            recall=spec.recall,
            sampling=sampling,
            sampling_wins=leads_alone,
            sole_user=leads_alone,
            max_turns=spec.max_turns,
            watch=watch,
            write=write,
            before_call=self.decisions.before_call,
            record=self.decisions.record,
        )

    def surrounded(self, policy: Policy, model: str = "") -> Policy:
        """The policy as episodes ask it: with the hooks that decide on requests, and told of to trackers that want it.

        `model` is its name, where it is one of several.
        """
        teacher = self.learning is not None and policy is self.learning.teacher and self.spec.teacher
        chosen = next((one for one in self.spec.models if one.alias == model), teacher or self.spec.policy)
        name = str(getattr(chosen.checked, "model", "") or chosen.name)
        if self.trace is not None:
            policy = traced("policy", policy, model or chosen.name, self.trace)
        return self.decisions.around(policy, name)

    def _traced_tools(self, tools: Sequence[Tool], task: Task) -> Sequence[Tool]:
        if self.trace is None:
            return tools
        return [traced("tool", tool, tool.action.name, self.trace, task) for tool in tools]

    def _traced_memories(self) -> Sequence[Memory]:
        if self.trace is None:
            return self.memories
        named = zip(self.memories, self.spec.memories, strict=True)
        return [traced("memory", memory, choice.name, self.trace) for memory, choice in named]

    def tasks(self, count: int, split: str) -> list[Task]:
        """The first `count` tasks of a split, or fewer. The environment is asked once per count and split."""
        if (count, split) not in self._tasks:
            found = list(self.environment.tasks(count, self.spec.seed, split))
            if not found:
                text = f'{self.environment.guard.title} has no task in the split "{split}"'
                raise UsageError(text, fix="choose another split, or add tasks to it")
            self._tasks[count, split] = found
        return self._tasks[count, split]

    def measured_tasks(self) -> list[Task]:
        """The tasks that the run's results come from."""
        count, _, split = self.spec.measured
        return self.tasks(count, split)

    def references(self) -> dict[str, list[dict[str, float]]]:
        """Results of simple players in these tasks, if the environment knows them: by name, one row per task."""
        found: dict[str, list[dict[str, float]]] = {}
        for task in self.measured_tasks():
            for player, row in self.environment.references(task).items():
                found.setdefault(player, []).append(dict(row))
        return found

    def asked(self) -> dict[str, Policy]:
        """All policies that take part, by what they are called in errors."""
        asked = {f"the policy {self.spec.policy.name}": self.policy.inside}
        asked |= {f"the model {name}": model.inside for name, model in self.models.items()}
        teacher = None if self.learning is None else self.learning.teacher or self.learning.scorer
        if self.spec.teacher is not None and teacher is not None:
            asked[f"the teacher {self.spec.teacher.name}"] = teacher.inside
        judges = {f"the judge of {name}": reward.inside.policy for name, reward in self.rewards.items()}
        return asked | {name: judge for name, judge in judges.items() if judge is not None}

    async def open(self, folder: Path, *, beside: bool = False) -> None:
        """Start the components: memories and reward models in the run's folder, and the servers of toolboxes.

        `beside` says that memories have a thread of their own, so that others can go on while a large one opens.
        """
        use_daemon_threads()  # a tool's function that hangs must not keep the process from ending
        self.calls.open(folder)
        if not self.decisions.records:  # what these keep, no hook could redact
            self.texts.open(folder)
            for policy in (self.policy, *self.models.values()):
                policy.open(folder)
        for memory in self.memories:
            if beside:
                await asyncio.to_thread(memory.open, folder)
            else:
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
        components = [self.policy, *self.models.values(), *self.memories, *self.toolboxes, *self.rewards.values()]
        await asyncio.gather(*(close(component) for component in components))
        self.calls.close()
        await in_thread(self.engine.close)


def assemble(spec: RunSpec, host: Host) -> Assembly:
    """Create the components of a resolved spec."""
    engine = make_engine(spec.engine, learns=spec.learner is not None)
    host.provide(engine=engine)
    calls, spending, texts = CallRecord(), Spending(spec.budget), LongTexts(spec.max_answer, host.notes)

    def made(layer: type[Part], kind: str, choice: Choice, where: str = "", **given: Any) -> Part:
        return host.guarded(layer, kind, choice, spec.deadline, calls, where, **given)

    policy = made(GuardedPolicy, "policy", spec.policy, "policy", spending=spending)
    if spec.optimizer is not None and not policy.overrides("publish"):
        raise UsageError(
            f"the policy \"{spec.policy.name}\" can't load a new version, so it can't be trained",
            fix="train one that can, such as transformers or vllm; use this one as a teacher: --teacher NAME",
        )
    assembly = Assembly(
        spec=spec,
        host=host,
        engine=engine,
        environment=made(GuardedEnvironment, "environment", spec.environment, "environment"),
        policy=policy,
        memories=[made(GuardedMemory, "memory", choice, shorten=texts.shortened) for choice in spec.memories],
        toolboxes=[made(GuardedToolbox, "tool", choice, shorten=texts.shortened) for choice in spec.tools],
        tools=[],
        rewards={choice.label: made(GuardedReward, "reward", choice, spending=spending) for choice in spec.rewards},
        weights={choice.label: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[made(GuardedTracker, "tracker", choice) for choice in spec.trackers],
        learning=make_learning(spec, host, engine, policy),
        spending=spending,
        decisions=Decisions(host.hooks_of_run(spec.hooks, spec.deadline), spending),
        texts=texts,
        calls=calls,
        models={
            choice.alias: made(GuardedPolicy, "policy", choice, f"model.{choice.alias}", spending=spending)
            for choice in spec.models
        },
    )
    spending.check(assembly.asked())
    # Raise if two reward models name the same component. Those that name none are found out when they score.
    named: dict[str, str] = {}
    for label, reward in assembly.rewards.items():
        with reward.guard.calling("its attributes"):
            components = [str(component) for component in reward.inside.components]
        for component in components:
            if (other := named.setdefault(component, label)) != label:
                raise shared_component(component, other, label)
    return assembly


def shared_component(component: str, one: str, other: str) -> UsageError:
    """The error for two reward models that give one component: a component has one weight."""
    return UsageError(
        f'the reward models "{one}" and "{other}" both give a component "{component}"',
        fix="leave one of the two out; the author of one of them can give its scores another component",
    )
