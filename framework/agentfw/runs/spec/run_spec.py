"""The spec of a run: its components, their settings, and how much is played and learned.

A spec is complete before any work begins: all names and keys are checked first, and all mistakes are reported together.
With an optimizer, the run learns from what it plays, and is called a training. In a TOML file, a component is its name,
or a table with its name and settings:

    environment = "inbox"
    policy = { name = "scripted", settings = { tokens = 4 } }
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from ...boundary.settings_input import validate
from ...engine.interface import EngineSettings
from ...errors import AgentfwError, SettingsError
from ...host.offers import component_name, is_file, whole_name
from ...interfaces import parse_interface
from ...request import Sampling
from ...settings import OPERATIONAL, Operational, Settings
from ...timeline import MAX_EVENTS, MAX_EVENTS_PER_INSTANT
from .weights import parse_schedule

COMPONENTS = {
    "environment": "environment",
    "policy": "policy",
    "teacher": "policy",
    "optimizer": "optimizer",
    "learner": "learner",
    "memories": "memory",
    "tools": "tool",
    "rewards": "reward",
    "trackers": "tracker",
    "models": "policy",
    "hooks": "hook",
}
"""The keys of a spec that name components, with the kind of component."""
MOST = 1_000_000  # maximum of what is counted in a spec: a slip of the finger isn't a run of years
SPLITS = ("train", "validation", "test")

OF_RUNS = ("episodes", "split")  # keys that only a run without an optimizer has
OF_TRAININGS = ("optimizer", "learner", "teacher", "updates", "tasks", "groups", "staleness", "evaluation", "keep")
"""Keys that only a run with an optimizer has."""
TRAINING_DEFAULTS: Mapping[str, Any] = {"samples": 4, "memories_learn": False, "max_failed": 0.25}
"""Defaults that are different with an optimizer."""
_AT_ONCE = (32, 256)  # the fewest and the most episodes of a training that are played at once by default


def _known_split(split: str) -> str:
    if split not in SPLITS:
        raise ValueError(f"must be {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    return split


def _parsed_by(parse: Callable[[Any], object]) -> AfterValidator:
    """Validates a value with its own syntax. The error is then reported with its key, together with the others."""

    def check(value: float | str) -> float | str:
        try:
            parse(value)
        except AgentfwError as error:
            raise ValueError(f"{error.message}; {error.fix}") from None
        return value

    return AfterValidator(check)


class Choice(Settings):
    """One component and its settings."""

    name: str = Field(min_length=1, description="Name of the component; `agentfw plugins list` shows all")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Its settings; `agentfw plugins show NAME` lists them"
    )
    _checked: BaseModel | None = PrivateAttr(None)

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def label(self) -> str:
        """How the keys of settings and errors name it, where a run has several components of its kind."""
        return str(getattr(self, "alias", "")) or label_of_name(self.name)

    @field_validator("name")
    @classmethod
    def _whole_path(cls, name: str) -> str:
        return whole_name(name)

    @property
    def checked(self) -> BaseModel | None:
        """The settings, validated, in a resolved spec: what the component is made with."""
        return self._checked

    def with_checked(self, settings: BaseModel | None) -> Self:
        resolved = self.model_copy()
        resolved._checked = settings
        return resolved


class ToolChoice(Choice):
    """One toolbox. An alias tells two of the same name apart."""

    alias: str = Field(
        "",
        pattern=r"^[\w.-]*$",
        description="Name of this toolbox in the run, for two of one component: `tool.ALIAS.key` are its settings",
    )


class RewardChoice(Choice):
    """One reward model and its weight."""

    weight: Annotated[float | str, _parsed_by(parse_schedule)] = Field(
        1.0,
        description="Weight: a number, `round:FIRST->LAST`, `stages:A,B,C`, `ramp:LAST` or `ramp:FIRST->LAST`; a ramp "
        "that ends early has its share of the training behind it, as `ramp:0.3@0.5`",
    )


class ModelChoice(Choice):
    """Another model that a gateway serves: a policy, and the name that programs ask for."""

    alias: str = Field(pattern=r"^[\w./:@-]+$", description="Name of the model")
    fallback: str = Field(
        "",
        description="Model that answers instead if this one can't be reached, or says 429 or 5xx, before any of its "
        "answer was sent on",
    )


class SamplingSettings(Settings):
    """How the policy samples. Missing keys are left to the policy."""

    temperature: float | None = Field(None, ge=0, description="Sampling temperature; 0 takes the likeliest token")
    top_p: float | None = Field(None, gt=0, le=1, description="Nucleus sampling: share of the probability mass")
    max_tokens: int | None = Field(None, ge=1, description="Maximum number of tokens of an answer")

    def sampling(self, seed: int) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.max_tokens, seed)


class SpendingSettings(Settings):
    """What a run may use. At a limit it stops in good order, and can be resumed with a higher one."""

    tokens: int | None = Field(
        None, ge=1, description="Maximum number of prompt and sampled tokens, of the policy and of judges"
    )
    money: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Maximum cost, in the currency of the prices (`policy.price`)"
    )


class EvaluationSettings(Settings):
    """How a training evaluates the policy: always on the same held-out tasks."""

    every: int = Field(
        5, ge=1, description="Number of updates between evaluations; also before the first, after the last"
    )
    tasks: int = Field(8, ge=1, description="Number of tasks to play")
    samples: int = Field(1, ge=1, description="Number of times each task is played")
    split: str = Field("validation", description="Split that the tasks come from: `validation` or `test`")
    sampling: SamplingSettings | None = Field(
        None, description="Sampling of evaluations. Default: that of the training"
    )

    @field_validator("split")
    @classmethod
    def _held_out(cls, split: str) -> str:
        if split == "train":
            raise ValueError("can't be train: evaluation tasks must be held out from training")
        return _known_split(split)


class RunSpec(Settings):
    """Everything that a run needs to know. With an optimizer it is a training."""

    requires: tuple[str, ...] = Field(
        (), description='Plugins that must be installed, with versions where they matter: `["agentfw-tea>=1.2"]`'
    )
    environment: Choice = Field(description="The world")
    policy: Choice = Field(description="Policy that makes the decisions")
    memories: tuple[Choice, ...] = Field((), description="Memories, asked in this order")
    memories_learn: bool = Field(
        True, description="Whether the memories learn from the episodes; never from those of an evaluation"
    )
    tools: tuple[ToolChoice, ...] = Field((), description="Tools besides the environment's own actions")
    rewards: tuple[RewardChoice, ...] = Field((), description="Reward models; default: the environment's own utility")
    trackers: tuple[Choice, ...] = Field((), description="Trackers that metrics are also logged to")
    hooks: tuple[Choice, ...] = Field((), description="Hooks that watch the run, or decide what may happen in it")
    models: tuple[ModelChoice, ...] = Field(
        (), description="Models that a gateway (`agentfw serve`) has besides the policy, which programs ask for by name"
    )
    fallback: str = Field("", description="Model of a gateway that answers if the policy can't, as `models.fallback`")
    interface: Annotated[str, _parsed_by(parse_interface)] = Field(
        "event_driven",
        description="How observations reach the agent: `event_driven`, `step_loop`, `polling:EVERY` or `reflex`",
    )
    concurrency: Annotated[int, Operational(unless=lambda spec: bool(spec.memories and spec.memories_learn))] = Field(
        8,
        ge=1,
        description="Number of episodes played at once; a memory that learns does so after each such batch. "
        f"Default in a training: those of an update, at least {_AT_ONCE[0]} and at most {_AT_ONCE[1]}",
    )
    seed: int = Field(7, description="Random seed")
    horizon: float | None = Field(None, gt=0, description="Maximum length of an episode, in the world's time")
    max_turns: int = Field(1000, ge=1, description="Maximum number of turns of an episode")
    max_events: Annotated[int, OPERATIONAL] = Field(
        MAX_EVENTS, ge=1, description="Maximum number of events that the environment schedules in an episode"
    )
    max_events_per_instant: Annotated[int, OPERATIONAL] = Field(
        MAX_EVENTS_PER_INSTANT, ge=1, description="Maximum number of events that it schedules at one time"
    )
    time_per_token: float | None = Field(
        None, ge=0, description="Time of the world that a generated token takes. Default: what the environment says"
    )
    deadline: Annotated[float, OPERATIONAL] = Field(
        600.0, gt=0, description="Seconds until a call of a component counts as failed; `inf` is no limit"
    )
    retries: Annotated[int, OPERATIONAL] = Field(
        2, ge=0, description="Number of times an episode or its scoring is repeated after a server has failed"
    )
    max_failed: Annotated[float, OPERATIONAL] = Field(
        0.1,
        ge=0,
        lt=1,
        description="Share of the episodes (of a run, an update or an evaluation) that may fail and be left out; "
        "the run stops when more do",
    )
    budget: Annotated[SpendingSettings, OPERATIONAL] = Field(
        default_factory=SpendingSettings,
        description="Limits on tokens and money, at which the run stops and can be resumed",
    )
    window: int | None = Field(
        None,
        ge=1,
        description="Number of rounds that the policy reads, the current one included; of turns, in a world without "
        "rounds. Default: all",
    )
    recall: int = Field(5, ge=0, description="Maximum number of recollections of each memory before a turn")
    max_answer: int = Field(
        100_000,
        ge=100,
        description="Maximum number of characters of a tool's answer, or of a recollection, that the agent is shown; "
        "the folder of the run has the whole",
    )
    sampling: SamplingSettings = Field(
        default_factory=SamplingSettings, description="Sampling of the policy; a key that is left out is up to it"
    )
    engine: EngineSettings = Field(
        default_factory=EngineSettings, description="Where other processes run, for components that use some"
    )
    episodes: int = Field(8, ge=1, le=MOST, description="Number of tasks to play")
    samples: int = Field(
        1, ge=1, le=MOST, description="Number of times each task is played; these samples form a group"
    )
    split: Annotated[str, AfterValidator(_known_split)] = Field(
        "test", description="Split that the tasks come from: `train`, `validation` or `test`"
    )
    optimizer: Choice | None = Field(None, description="Optimizer: turns scores into advantages and names the loss")
    learner: Choice | None = Field(None, description="Learner: makes a new version of the policy from advantages")
    teacher: Choice | None = Field(
        None,
        description="Policy that plays the episodes to learn from, in place of the one that is trained; or, with the "
        "optimizer `distillation`, says how likely the tokens are that this one plays",
    )
    updates: Annotated[int, Operational(grows=True)] = Field(
        20, ge=1, le=MOST, description="Number of updates of the policy; may be raised later"
    )
    tasks: int = Field(8, ge=1, le=MOST, description="Number of tasks of the split `train` in each update")
    staleness: int = Field(
        0,
        ge=0,
        description="Number of updates that the policy may play ahead of the learner. 0: playing and learning take "
        "turns, and a resumed training is equal to the last byte. Above: they overlap, the learner in its own process",
    )
    evaluation: EvaluationSettings = Field(
        default_factory=EvaluationSettings, description="When and on which tasks the policy is evaluated"
    )
    groups: Literal["task", "query"] = Field(
        "task",
        description="What the episodes of a group have in common: the task, played `samples` times, or the query, "
        "played once by each of `samples` users; an update then has tasks / samples queries",
    )
    keep: Annotated[int, OPERATIONAL] = Field(2, ge=1, description="Number of newest versions that stay on disk")

    @property
    def planned_updates(self) -> int:
        """The number of updates. 0 without an optimizer."""
        return 0 if self.optimizer is None else self.updates

    @property
    def measured(self) -> tuple[int, int, str]:
        """The tasks that the results come from: how many, how often each, and of which split."""
        if self.optimizer is None:
            return self.episodes, self.samples, self.split
        return self.evaluation.tasks, self.evaluation.samples, self.evaluation.split

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_trainings(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("optimizer") is None:
            return values
        values = {**TRAINING_DEFAULTS, **values}
        tasks, samples = values.get("tasks", cls.model_fields["tasks"].default), values["samples"]
        if isinstance(tasks, int) and isinstance(samples, int):
            episodes = tasks if values.get("groups") == "query" else tasks * samples
            fewest, most = _AT_ONCE
            values.setdefault("concurrency", max(fewest, min(most, episodes)))
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> RunSpec:
        given = {key: getattr(self, key) for key in self.model_fields_set}
        named = {"agentfw", *(model.alias for model in self.models)}
        fallbacks = [("the policy", self.fallback), *((model.alias, model.fallback) for model in self.models)]
        wrong = [
            f"the fallback of {model} is {other}, which is no other model of {', '.join(sorted(named))}"
            for model, other in fallbacks
            if other and (other not in named or other == model)
        ]
        wrong[:0] = _conflicts(given)
        if self.optimizer is not None and self.groups == "query" and (self.tasks % self.samples or self.samples < 2):
            wrong.append(f"groups of {self.samples} users need tasks to be a multiple of that, not {self.tasks}")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_unused(self, values: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unused = OF_TRAININGS if self.optimizer is None else OF_RUNS
        return {key: value for key, value in values(self).items() if key not in unused}

    @field_validator("engine", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("memories", "tools", "rewards", "trackers", "hooks", "models", mode="before")
    @classmethod
    def _many(cls, value: object) -> object:
        items = [value] if isinstance(value, (str, Mapping)) else value
        return tuple(items) if isinstance(items, Iterable) else items

    @field_validator("memories", "tools", "rewards", "trackers", "hooks", "models")
    @classmethod
    def _each_once(cls, choices: tuple[Choice, ...], info: ValidationInfo) -> tuple[Choice, ...]:
        if twice := sorted(label for label, count in Counter(choice.label for choice in choices).items() if count > 1):
            why = {"rewards": "; a reward has one weight", "tools": "; give one an alias"}
            raise ValueError(f"{', '.join(twice)}: is listed twice{why.get(str(info.field_name), '')}")
        return choices


def label_of_name(name: str) -> str:
    """A qualified name or the path of a file without what stands before the component's own name."""
    return component_name(name) if is_file(name) else name.rpartition(":")[2]


LISTS = {"memory": "memories", "tool": "tools", "reward": "rewards", "tracker": "trackers"}
LISTS |= {"hook": "hooks", "model": "models"}
SINGULAR = {several: one for one, several in LISTS.items()}  # how the keys of settings call one of each list


def parse_spec(values: Mapping[str, object], where: str = "spec") -> RunSpec:
    """Make a spec from plain values. The SettingsError lists everything that is wrong."""
    try:
        spec = validate(RunSpec, values, where)
    except SettingsError as error:
        # pydantic doesn't come to what keys mean together where one of them is wrong.
        if error.problems.keys() - {where} and (conflicts := "; ".join(_conflicts(values))):
            raise SettingsError.of({**error.problems, where: conflicts}, error.fix) from None
        raise
    assert isinstance(spec, RunSpec)
    return spec


def _conflicts(given: Mapping[str, object]) -> Iterator[str]:
    """What keys say that can't be meant together. A key without effect was written for another kind of run."""
    if given.get("optimizer") is None:
        if unused := [key for key in OF_TRAININGS if given.get(key) is not None]:
            yield f"{', '.join(unused)}: only valid with an optimizer, in a training"
        return
    if unused := [key for key in OF_RUNS if key in given]:
        yield f"{', '.join(unused)}: not valid in a training; use tasks and evaluation.tasks"
    if given.get("learner") is None:
        yield "an optimizer needs a learner"
