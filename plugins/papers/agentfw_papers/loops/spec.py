"""The spec of a loop: what a cell does in each phase, and the variants that are compared.

    rounds = 2
    figures = ["judge", "personal"]
    quick = ["A1"]             # what --quick compares with the first variant
    carry = ["policy.weights={adapter}", "learner.weights={adapter}"]
    settled = { assistant_preference = "model" }

    [run]                      # keys of a run spec, for all phases
    environment = "assistant"

    [live]                     # runs in which memories and reward models learn
    split = "train"

    [train]                    # trainings, in which they are held as they are
    optimizer = "parpo"

    [exam]                     # the run that is measured, on a copy of the store
    episodes = 960

    [variants.A1]
    about = "no memory"
    set = ["memory.skillgraph.ablation=A1"]

    [variants.drifting]
    about = "tastes change"
    like = "Full"
    exam = ["environment.drift_day=6"]

    [contrasts.together]
    about = "what memory and training are worth beyond the sum of each"
    plus = ["Full", "P0"]
    minus = ["A1", "P1"]

In a value, `{store}` is the folder of the cell's memories, `{shared}` a folder that all cells share, `{seed}` the
cell's seed, `{before}` the number of episodes of earlier live phases, `{adapter}` the newest adapter and `{training}`
the folder of the training that made it. `carry` is applied from the first training on, and `carry_train` in trainings
only. `settled` names reward models that learn in live phases, each with its setting for the folder of what it has
learned. The phases that follow are given that folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from agentfw import Host, RunSpec, Settings
from agentfw.boundary.settings_input import parse_assignments, validate
from agentfw.errors import AgentfwError, SettingsError, nearest
from agentfw.runs import apply_assignments, parse_spec, read_spec, resolve

Phase = Literal["live", "train", "exam"]
_LEARNING = ("learner", "optimizer")


class Variant(Settings):
    """Settings of one variant."""

    about: str = Field(min_length=1, description="What it is, in a few words")
    set: tuple[str, ...] = Field((), description="Assignments for all phases, as with --set, before those of a phase")
    live: tuple[str, ...] = Field((), description="Assignments for live phases")
    later: tuple[str, ...] = Field((), description="Assignments for live phases after the first round")
    train: tuple[str, ...] = Field((), description="Assignments for trainings")
    exam: tuple[str, ...] = Field((), description="Assignments for the exam")
    trains: bool = Field(True, description="Whether the policy is trained")
    like: str = Field(
        "", description="Another variant, whose memory and policy are examined in another way; nothing else is done"
    )


class Contrast(Settings):
    """A comparison of several variants: the sum of some less the sum of others, user by user."""

    about: str = Field(min_length=1, description="What it measures, in a few words")
    plus: tuple[str, ...] = Field(min_length=1, description="Variants that are added")
    minus: tuple[str, ...] = Field(min_length=1, description="Variants that are subtracted")

    @property
    def variants(self) -> tuple[str, ...]:
        return (*self.plus, *self.minus)


class LoopSpec(Settings):
    """A loop. The first variant is the one that the others are compared with."""

    rounds: int = Field(2, ge=1, description="How often a live phase and a training follow each other")
    figures: tuple[str, ...] = Field(min_length=1, description="Figures of the table, the leading one first")
    details: tuple[str, ...] = Field((), description="Further figures, for table.json and the report")
    groups: tuple[str, ...] = Field((), description="Figures that say which group a user belongs to, for the audit")
    quick: tuple[str, ...] = Field((), description="Variants that --quick compares with the first one")
    own_users: bool = Field(
        False, description="Whether each seed has users of its own, because a world is made from the seed"
    )
    carry: tuple[str, ...] = Field((), description="Assignments that hand the newest adapter on")
    carry_train: tuple[str, ...] = Field((), description="Assignments that hand on what a training goes on with")
    settled: dict[str, str] = Field(
        default_factory=dict, description="Reward models that learn, and the setting that takes what they have learned"
    )
    run: dict[str, Any] = Field(description="Keys of all phases, as in the spec of a run")
    live: dict[str, Any] = Field(default_factory=dict, description="Further keys of live phases")
    train: dict[str, Any] = Field(default_factory=dict, description="Further keys of trainings")
    exam: dict[str, Any] = Field(default_factory=dict, description="Further keys of the exam")
    variants: dict[str, Variant] = Field(min_length=2, description="The variants by name")
    contrasts: dict[str, Contrast] = Field(default_factory=dict, description="Comparisons of several variants, by name")

    @field_validator("variants")
    @classmethod
    def _named(cls, variants: dict[str, Variant]) -> dict[str, Variant]:
        odd = [name for name in variants if not name.isidentifier()]
        if odd:
            raise ValueError(f"{', '.join(odd)}: a name consists of letters, digits and _")
        return variants

    @model_validator(mode="after")
    def _known(self) -> LoopSpec:
        for name, variant in self.variants.items():
            if variant.like and (variant.like not in self.variants or self.variants[variant.like].like):
                raise ValueError(f'the variant {name} is like "{variant.like}", which has no training of its own')
        named = [(f"the contrast {name}", one) for name, some in self.contrasts.items() for one in some.variants]
        for what, one in (*named, *(("quick", one) for one in self.quick)):
            if one not in self.variants:
                close = nearest(one, self.variants)
                hint = f'; did you mean "{close}"?' if close else ""
                raise ValueError(f'{what} names "{one}", which is no variant{hint}')
        return self

    def chosen(self, names: Sequence[str]) -> LoopSpec:
        """The same loop with only the first variant and these."""
        for name in names:
            if name not in self.variants:
                close = nearest(name, self.variants)
                raise SettingsError(
                    f'there is no variant "{name}"',
                    fix=f"--variant {close}" if close else f"use {', '.join(self.variants)}",
                )
        wanted = {next(iter(self.variants)), *names, *(self.variants[name].like for name in names)}
        kept = {name: one for name, one in self.variants.items() if not names or name in wanted}
        contrasts = {name: one for name, one in self.contrasts.items() if {*one.variants} <= kept.keys()}
        quick = tuple(name for name in self.quick if name in kept)
        return self.model_copy(update={"variants": kept, "contrasts": contrasts, "quick": quick})

    def phase(
        self,
        variant: str,
        phase: Phase,
        places: Mapping[str, str],
        *,
        seed: int,
        learned: Mapping[str, Path] = MappingProxyType({}),
        later: bool = False,
    ) -> RunSpec:
        """The spec of one phase. `places` are what the placeholders stand for, `learned` what reward models learned."""
        own = self.variants[variant]
        values = {**self.run, **getattr(self, phase), "seed": seed}
        of_phase = (*getattr(own, phase), *(own.later if later and phase == "live" else ()))
        carried = self.carry if "adapter" in places else ()
        if "adapter" in places and phase == "train":
            carried += self.carry_train
        try:
            for some in (carried, own.set, of_phase):
                if phase != "train":
                    # There is nothing to learn with in these phases.
                    some = tuple(one for one in some if re.split("[.=]", one, maxsplit=1)[0] not in _LEARNING)
                values = apply_assignments(values, parse_assignments(some))
            filled = _filled(values, places)
            spec = parse_spec(filled)
            selected = {reward.name for reward in spec.rewards} & self.settled.keys() & learned.keys()
            if not selected:
                return spec
            models = {name: {self.settled[name]: str(learned[name])} for name in sorted(selected)}
            return parse_spec(apply_assignments(filled, {"reward": models}))
        except AgentfwError as error:
            raise _in(variant, phase, error) from None

    def check(self, host: Host) -> None:
        """Raise for whatever is wrong with any phase of any variant, before anything is played."""
        phases: tuple[Phase, ...] = ("live", "train", "exam")
        for variant in self.variants:
            for phase in phases:
                places = {"store": "store", "shared": "shared", "seed": "1", "before": "0"}
                spec = self.phase(variant, phase, places, seed=1)
                try:
                    resolve(spec, host)
                except AgentfwError as error:
                    raise _in(variant, phase, error) from None


def read_loop(path: Path) -> LoopSpec:
    """Read the spec of a loop from a file."""
    spec = validate(LoopSpec, read_spec(path), str(path))
    assert isinstance(spec, LoopSpec)
    return spec


def _in(variant: str, phase: Phase, error: AgentfwError) -> SettingsError:
    return SettingsError(f"variant {variant}, {phase}: {error.message}", fix=error.fix)


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    """A value with its placeholders replaced."""
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(f"{{{name}}}", place)
        return value
    if isinstance(value, Mapping):
        return {key: _filled(item, places) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(item, places) for item in value]
    return value
