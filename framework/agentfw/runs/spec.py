"""What a run is made of, as a value: which components, with which settings, how many episodes, from which seed.

The one rule: a spec is complete before any work begins. Every name and key in it is checked first, and what is wrong is
told at once; the run folder keeps it, resolved, with the versions of the plugins that it used.

A spec is a TOML file. A component is its name, or a table with its name and settings:

    environment = "inbox"
    policy = { name = "scripted", settings = { tokens = 4 } }
    memories = ["notebook"]
    rewards = [{ name = "utility", weight = 1.0 }, { name = "format", weight = "round:0.5->0" }]
    interface = "event_driven"
    episodes = 24
    seed = 7
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from ..errors import AgentfwError, SettingsError, UnknownNameError, UsageError
from ..interfaces import parse_interface
from ..policy import Sampling
from ..scores import parse_schedule
from ..settings import Settings, validate

__all__ = [
    "COMPONENTS",
    "Choice",
    "CommonSpec",
    "RewardChoice",
    "RunSpec",
    "SamplingSettings",
    "apply_assignments",
    "parse_spec",
    "read_spec",
]

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
}
"""Each key of a spec that names components, and of which kind they are."""


class Choice(Settings):
    """One component and its settings."""

    name: str = Field(min_length=1, description="Its name; `agentfw plugins list` shows them")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Its settings; `agentfw plugins show NAME` says which it has"
    )


class RewardChoice(Choice):
    """One reward component, and how much it counts."""

    weight: float | str = Field(
        1.0,
        description="How much it counts: a number, `round:FIRST->LAST`, `stages:A,B,C`, `ramp:CAP` or `ramp:CAP@SHARE`",
    )

    @field_validator("weight")
    @classmethod
    def _understood(cls, weight: float | str) -> float | str:
        _parsed(parse_schedule, weight)
        return weight


class SamplingSettings(Settings):
    """How the policy samples; what is left out is up to the policy."""

    temperature: float | None = Field(None, ge=0, description="How freely it draws; 0 takes the likeliest token")
    top_p: float | None = Field(None, gt=0, le=1, description="The share of probability that it draws from")
    max_tokens: int | None = Field(None, ge=1, description="After how many tokens an answer is cut off")

    def sampling(self, seed: int) -> Sampling:
        return Sampling(self.temperature, self.top_p, self.max_tokens, seed)


class CommonSpec(Settings):
    """What a run and a training both need to know."""

    environment: Choice = Field(description="The world")
    policy: Choice = Field(description="Who decides")
    memories: tuple[Choice, ...] = Field((), description="What it remembers with, asked in this order")
    tools: tuple[Choice, ...] = Field((), description="What it can call besides the environment's own actions")
    rewards: tuple[RewardChoice, ...] = Field(
        (), description="What its work is scored by; without any, the reward is what the environment paid"
    )
    trackers: tuple[Choice, ...] = Field((), description="Where the figures go besides the run's folder")
    interface: str = Field(
        "event_driven",
        description="How what happens reaches the agent: `event_driven`, `step_loop`, `polling:EVERY` or `reflex`",
    )
    concurrency: int = Field(
        8, ge=1, description="How many episodes at once; with a memory, also after how many it learns"
    )
    seed: int = Field(7, description="Where every random choice comes from")
    horizon: float | None = Field(None, gt=0, description="When an episode ends at the latest, in the world's time")
    max_turns: int = Field(1000, ge=1, description="After how many turns an episode ends at the latest")
    time_per_token: float | None = Field(
        None, ge=0, description="How much of the world's time a generated token takes, if not what the environment says"
    )
    window: int | None = Field(None, ge=1, description="How many past turns the policy reads; all when not set")
    recall: int = Field(5, ge=0, description="How much each memory may bring up before a turn")
    sampling: SamplingSettings = Field(
        default_factory=SamplingSettings, description="How the policy samples; what is left out is up to the policy"
    )

    @field_validator("environment", "policy", "teacher", "optimizer", "learner", mode="before", check_fields=False)
    @classmethod
    def _one(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("memories", "tools", "rewards", "trackers", mode="before")
    @classmethod
    def _many(cls, value: object) -> object:
        items = [value] if isinstance(value, (str, Mapping)) else value
        if not isinstance(items, Iterable):
            return items
        return tuple({"name": item} if isinstance(item, str) else item for item in items)

    @field_validator("rewards")
    @classmethod
    def _each_once(cls, rewards: tuple[RewardChoice, ...]) -> tuple[RewardChoice, ...]:
        names = [reward.name for reward in rewards]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: is there twice; a reward has one weight")
        return rewards

    @field_validator("interface")
    @classmethod
    def _known(cls, text: str) -> str:
        _parsed(parse_interface, text)
        return text


class RunSpec(CommonSpec):
    """Everything that a run needs to know."""

    episodes: int = Field(8, ge=1, description="How many tasks are played")
    samples: int = Field(1, ge=1, description="How often each task is played; the samples form a group")
    split: str = Field("test", description="Which of the environment's tasks: `train`, `validation` or `test`")


def _parsed(parse: Callable[[Any], object], value: object) -> None:
    """Check a value that has a little grammar of its own; its complaint then stands beside the others, with its key."""
    try:
        parse(value)
    except AgentfwError as error:
        raise ValueError(f"{error.message}; {error.fix}") from None


_LISTS = {"memory": "memories", "tool": "tools", "reward": "rewards", "tracker": "trackers"}
_SINGLE = tuple(key for key in COMPONENTS if key not in _LISTS.values())


def parse_spec(values: Mapping[str, object], where: str = "spec") -> RunSpec:
    """A spec from plain values; one SettingsError says everything that is wrong."""
    spec = validate(RunSpec, values, where)
    assert isinstance(spec, RunSpec)
    return spec


def read_spec(path: Path) -> dict[str, Any]:
    """The plain values of a spec file, not checked yet: the command line may still add to them."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"there is no spec file {path}", fix="give a TOML file; see docs/reference/settings.md"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {path}: {error}", fix="a spec is a TOML file in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is no TOML: {error}", fix="docs/reference/settings.md shows a spec") from None


def apply_assignments(values: Mapping[str, Any], assignments: Mapping[str, Any]) -> dict[str, Any]:
    """Put what `--set` says into the plain values of a spec.

    `seed=3` and `sampling.top_p=0.9` are the spec's own keys; `environment.rate=0.5` and `policy.tokens=4` are settings
    of these components, as are those of `optimizer`, `learner` and `teacher`; `memory.NAME.key`, `tool.NAME.key`,
    `reward.NAME.key` (also `reward.NAME.weight`) and `tracker.NAME.key` are settings of one of several.

    >>> apply_assignments({"environment": "inbox"}, {"environment": {"rate": 0.5}, "seed": 3})
    {'environment': {'name': 'inbox', 'settings': {'rate': 0.5}}, 'seed': 3}
    """
    result = dict(values)
    for key, value in assignments.items():
        singular = next((one for one, several in _LISTS.items() if several == key), "")
        if key in _SINGLE:
            result[key] = _with_settings(_table(result.get(key, {})), value, key, ())
        elif key in _LISTS:
            result[_LISTS[key]] = _assign_to_one(list(_listed(result.get(_LISTS[key], ()))), key, value)
        elif singular and isinstance(value, Mapping):
            raise SettingsError(f"--set {key}.... says no component", fix=f"write {singular}.NAME.KEY=VALUE")
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _assign_to_one(choices: list[dict[str, Any]], kind: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"--set {kind}=... says no component", fix=f"write {kind}.NAME.KEY=VALUE")
    for name, settings in value.items():
        names = [str(choice.get("name")) for choice in choices]
        if name not in names:
            raise UnknownNameError(f"selected {kind}", name, names, fix=f"select it: --{kind} {name}")
        index = names.index(name)
        own = ("weight",) if kind == "reward" else ()
        choices[index] = _with_settings(choices[index], settings, f"{kind}.{name}", own)
    return choices


def _with_settings(choice: dict[str, Any], settings: object, where: str, own: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        if isinstance(settings, str) and where in _SINGLE:
            return {"name": settings}
        raise SettingsError(f"--set {where}=... says no key", fix=f"write {where}.KEY=VALUE")
    taken = {key: settings[key] for key in own if key in settings}
    rest = {key: item for key, item in settings.items() if key not in own}
    return {**choice, **taken, "settings": _merged(choice.get("settings", {}), rest)}


def _merged(old: object, new: object) -> object:
    """`new` in the place of `old`; in tables, key by key: setting one key of a table leaves its others."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return new


def _table(value: object) -> dict[str, Any]:
    return {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}


def _listed(value: object) -> list[dict[str, Any]]:
    items = [value] if isinstance(value, (str, Mapping)) else value
    return [_table(item) for item in items] if isinstance(items, Iterable) else []
