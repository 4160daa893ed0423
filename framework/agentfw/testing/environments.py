"""The contract of environments: checks play episodes with agents that act at random, talk nonsense, or do nothing."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Sequence
from functools import cache

from ..environment import Environment
from ..episode import Call, Episode, Task
from ..interfaces import Interface, parse_interface
from ..policy import Generation, Policy, Request
from ..request import Brief
from ..seeds import Seeds
from ..turns.engagement import Engagement
from ..turns.policy_agent import PolicyAgent
from ..turns.session import SessionEnvironment
from .checks import DoesNotApply, Subject, require, require_finite, require_json, short
from .tools import check_actions, drawn, junk, unfitting

Environments = Subject[Environment]
_SEED = 7
_SPLITS = ("train", "test")


def _task(subject: Environments, index: int = 0) -> Task:
    return subject.make().tasks(index + 1, _SEED, "test")[index]


def the_brief_can_be_read(subject: Environments) -> None:
    """An agent is told a goal and actions that a model can call."""
    brief = subject.make().brief()
    require(isinstance(brief, Brief), f"brief() gives a {type(brief).__name__}")
    has_goal = isinstance(brief.goal, str) and brief.goal.strip()
    require(has_goal, "there is no goal: write a docstring, or override goal()")
    check_actions(brief.actions)
    time = brief.time_per_token
    require(math.isfinite(time) and time >= 0, f"a token can't take {time}")


def tasks_are_as_many_as_asked(subject: Environments) -> None:
    """A run gets as many episodes as it asks for, each of its own, and the same ones for the same seed."""
    for count in (1, 5):
        tasks, again = (list(subject.make().tasks(count, _SEED, "test")) for _ in range(2))
        require(len(tasks) == count, f"tasks({count}, ...) gives {len(tasks)}")
        require(all(isinstance(task, Task) for task in tasks), "tasks() gives something that is no Task")
        indexes = [task.index for task in tasks]
        require(len(set(indexes)) == count, f"tasks({count}, ...) gives one index twice: {indexes}")
        require(tasks == again, f"tasks({count}, {_SEED}, 'test') gives other tasks the second time")


def training_and_test_differ(subject: Environments) -> None:
    """No task of the training is one of the test."""
    world = subject.make()
    if isinstance(world, SessionEnvironment):
        raise DoesNotApply("it plays its episodes through sessions")
    train, test = ({(task.seed, task.user, task.query) for task in world.tasks(5, _SEED, split)} for split in _SPLITS)
    both = train & test
    require(not both, f"the seed {min(both)[0] if both else ''} is in the training and in the test; use `split`, too")


async def one_seed_gives_one_episode(subject: Environments) -> None:
    """One seed gives one episode: played twice alike, it is recorded alike."""
    task = _task(subject)
    first, second = [await play(subject.make(), task, RandomCaller()) for _ in range(2)]
    _same(first, second, "played twice")


async def episodes_do_not_touch_each_other(subject: Environments) -> None:
    """Episodes that are played side by side are those that are played alone."""
    tasks = [_task(subject, index) for index in range(3)]
    alone = [await play(subject.make(), task, RandomCaller()) for task in tasks]
    together = await asyncio.gather(*(play(subject.make(), task, RandomCaller()) for task in tasks))
    for first, second in zip(alone, together, strict=True):
        _same(first, second, "played beside others")


async def any_seed_will_do(subject: Environments) -> None:
    """Every seed gives an episode, also a large one."""
    for seed in (0, 1, 2**31, 2**63 - 1):
        await play(subject.make(), Task(0, seed), RandomCaller(), most_turns=20)


async def it_ends(subject: Environments) -> None:
    """An episode ends also when the agent does nothing, or too much."""
    for player in (Silent(), RandomCaller()):
        finish = (await play(subject.make(), _task(subject), player)).finish
        require(finish in ("finished", "horizon", "turn_limit", "quiet"), f'it ended as "{finish}"')


async def nonsense_is_refused(subject: Environments) -> None:
    """Impossible actions are refused, and nothing that an agent says makes the environment fail."""
    fuzzed = 0
    for index in range(4):
        nonsense = Nonsense()
        episode = await play(subject.make(), _task(subject, index), nonsense)
        tried = {str(event.data["id"]) for event in episode.events if event.kind == "intervention"}
        refused = {str(event.data["id"]) for event in episode.events if event.kind == "refused"}
        for call, words in nonsense.impossible.items():
            require(call not in tried or call in refused, f"it took {words}")
        fuzzed += len(tried)
        if fuzzed > 500:
            return


async def the_record_comes_back_equal(subject: Environments) -> None:
    """An episode goes to disk as JSON and comes back equal."""
    episode = await play(subject.make(), _task(subject), RandomCaller())
    for event in episode.events:
        require_json(event.data, f"the data of {event.kind} {event.name}")
    record = json.loads(json.dumps(episode.to_record()))
    require(Episode.from_record(record) == episode, "the record, read back, is another episode")


async def the_headline_is_there(subject: Environments) -> None:
    """Its headline is in every outcome, and all figures are numbers."""
    for most_turns in (MOST_TURNS, 1):
        environment = subject.make()
        episode = await play(environment, _task(subject), RandomCaller(), most_turns=most_turns)
        name, known = environment.headline, ", ".join(episode.outcome) or "nothing is"
        where = f'the outcome of an episode that ended as "{episode.finish}": {known}'
        require(name == "utility" or name in episode.outcome, f'its headline "{name}" isn\'t in {where}')
        for figure, value in {**episode.outcome, "utility": episode.utility}.items():
            require_finite(value, f"the figure {figure}")


async def references_can_be_set_beside(subject: Environments) -> None:
    """Its results of simple players have its headline as a number, and are the same when asked for again."""
    task, environment = _task(subject), subject.make()
    if not (found := environment.references(task)):
        raise DoesNotApply("it has no references")
    for player, figures in found.items():
        require(environment.headline in figures, f'the reference "{player}" has no "{environment.headline}"')
        for figure, value in figures.items():
            require_finite(value, f'{figure} of the reference "{player}"')
    require(subject.make().references(task) == found, "asked again for one task, its references are others")


async def every_interface_will_do(subject: Environments) -> None:
    """It can be played through each of the four interfaces."""
    for name in ("event_driven", "step_loop", "polling:1", "reflex"):
        for player in (RandomCaller(), Silent()):
            await play(subject.make(), _task(subject), player, parse_interface(name), most_turns=40)


async def the_demonstration_works(subject: Environments) -> None:
    """If it has a demonstration, the demonstrated actions are possible."""
    environment = subject.make()
    brief = environment.brief()
    if brief.demonstration is None:
        raise DoesNotApply("it has no demonstration")
    episode = await play(environment, _task(subject), _Follower())
    if brief.plain and any(turn.text for turn in episode.turns):
        return  # the environment reads the text itself
    done = sum(event.kind == "intervention" for event in episode.events)
    require(done, "in a whole episode its demonstration does nothing")
    reasons = [str(event.data["reason"]) for event in episode.events if event.kind == "refused"]
    require(len(reasons) < done, f"all that its demonstration does is refused: {', '.join(reasons[:1])}")


def _same(first: Episode, second: Episode, how: str) -> None:
    """Broken where two records differ; the text says in what first."""
    one, two = first.to_record(), second.to_record()
    names = [name for name in one if json.dumps(one[name], default=repr) != json.dumps(two[name], default=repr)]
    difference = f"the records differ in {', '.join(names)}"
    for number, (event, other) in enumerate(zip(first.events, second.events, strict=False)):
        if event != other:
            difference = f"event {number} is {short(event)} once and {short(other)} then"
            break
    require(not names, f"{how}, the episode is another one: {difference}; take every random choice from world.random")


class _Follower(Policy):
    """Does what the environment's demonstration does, and says what it says."""

    async def generate(self, request: Request) -> Generation:
        assert request.brief.demonstration is not None
        assert request.moment is not None
        given = list(request.brief.demonstration(request.moment))
        calls = tuple(one for one in given if not isinstance(one, str))
        return Generation("\n".join(one for one in given if isinstance(one, str)), calls, count=1, version="check")


# Who plays. What is drawn comes from the task's seed and the order of the turns, so one task is always played one way.

MOST_TURNS = 150


class Silent(Policy):
    """Never does anything. It has a generator for each episode, and takes one token for an answer."""

    def __init__(self) -> None:
        self._generator = cache(lambda task: Seeds(task.seed).random("player", task.sample))

    async def generate(self, request: Request) -> Generation:
        # Let other episodes come in between, as a policy that has to be waited for does.
        await asyncio.sleep(0)
        calls = self.calls(request, self._generator(request.task))
        return Generation(calls=tuple(calls), count=1, version="check")

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        return ()


class RandomCaller(Silent):
    """A call that fits its schema, or sometimes none."""

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        if not request.actions or generator.random() < 0.1:
            return ()
        action = generator.choice(sorted(request.actions, key=lambda action: action.name))
        return (Call(action.name, drawn(action.parameters, generator)),)


class Nonsense(Silent):
    """Calls that can't be carried out, calls that may be anything, and one that fits so that things go on."""

    def __init__(self) -> None:
        super().__init__()
        self.impossible: dict[str, str] = {}
        """The id of each call that must be refused, and why."""
        self._made = 0

    def calls(self, request: Request, generator: random.Random) -> Sequence[Call]:
        made = [self._call(f"no_such_{generator.randint(0, 9)}", {}, impossible="there is no such action")]
        actions = sorted(request.actions, key=lambda action: action.name)
        for action in actions:
            if wrong := list(unfitting(action.parameters)):
                arguments, why = generator.choice(wrong)
                made.append(self._call(action.name, arguments, impossible=why))
            made.append(self._call(action.name, junk(action.parameters, generator)))
        generator.shuffle(made)
        if actions:
            action = generator.choice(actions)
            made.append(self._call(action.name, drawn(action.parameters, generator)))
        return made

    def _call(self, name: str, arguments: dict[str, object], *, impossible: str = "") -> Call:
        self._made += 1
        call = Call(name, arguments, f"check-{self._made}")
        if impossible:
            given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            self.impossible[call.id] = f"{name}({given}): {impossible}"
        return call


async def play(
    environment: Environment,
    task: Task,
    policy: Policy,
    interface: Interface | None = None,
    *,
    most_turns: int = MOST_TURNS,
) -> Episode:
    """One episode, played to its end or to so many turns."""
    if isinstance(environment, SessionEnvironment):
        raise DoesNotApply("it plays its episodes through sessions")
    agent = PolicyAgent(policy, window=4)
    return await Engagement(environment, agent, interface, max_turns=most_turns).run(task)
