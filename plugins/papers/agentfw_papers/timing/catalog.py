"""The action catalog of a domain: what can be done, with which parameters, and in which workflows.

>>> team = Parameter("company_team", values={"manager": ["the boss"], "website team": []})
>>> catalog = Catalog("shop", "1", (Action("notify-team", parameters=(team,), aliases=("Notify Internal Team",)),))
>>> catalog.find("notify_team").name, catalog.find("Notify Internal Team").name, catalog.find("dance")
('notify-team', 'notify-team', None)
>>> catalog.canonical("notify-team", "company_team", "The boss")
'manager'
>>> print(catalog.render("signatures"))
notify-team(company_team?)

Action dependency alignment (AD): do predictions follow one another as the domain's workflows do?

How likely one action follows another is counted in the workflows, smoothed over all actions of the catalog (equations
13 and 14). AD sums over all actions of the previous prediction, as printed, and can exceed 1; `ad_mean` divides by
their number. Both are undefined where either prediction is empty.

    >>> dependencies = Dependencies([["look-up", "refund"], ["look-up", "refund"], ["look-up", "reship"]])
    >>> round(dependencies.probability("look-up", "refund"), 3)
    0.667
    >>> round(dependencies.alignment(["look-up"], ["refund", "reship"]), 3)
    0.5
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Self

from agentfw_papers.timing.dialogues import Trigger
from agentfw_papers.timing.matching import normalise
from agentfw_rewardmodels import BadInputError

Kind = Literal["mcp", "api", "agent"]
Style = Literal["full", "signatures", "names", "none"]
MIN_OBSERVED = 5
"""Uses of an action that are needed to tell from them which parameters it requires."""


@dataclass(frozen=True)
class Parameter:
    """What an action takes. `values` are the allowed ones, each with other spellings of it; empty allows any value."""

    name: str
    type: str = "string"
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pattern: str = ""
    description: str = ""
    required: bool = False

    def canonical(self, value: str) -> str:
        """The allowed value of which this is a spelling, or the value itself."""
        return self._spellings.get(normalise(value), value)

    def spellings(self, value: str) -> tuple[str, ...]:
        """A value with all other spellings of it."""
        canonical = self.canonical(value)
        return tuple(dict.fromkeys((value, canonical, *self.values.get(canonical, ()))))

    @cached_property
    def _spellings(self) -> dict[str, str]:
        spellings = {normalise(other): value for value, others in self.values.items() for other in others}
        return spellings | {normalise(value): value for value in self.values}


@dataclass(frozen=True)
class Action:
    """One action of a catalog."""

    name: str
    kind: Kind = "api"
    group: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    aliases: tuple[str, ...] = ()

    def find(self, parameter: str) -> Parameter | None:
        """The parameter of this name, whatever its case and separators."""
        return self._parameters.get(parameter) or self._parameters.get(normalise(parameter))

    @cached_property
    def _parameters(self) -> dict[str, Parameter]:
        return {normalise(one.name): one for one in self.parameters} | {one.name: one for one in self.parameters}

    @property
    def signature(self) -> str:
        """The action on one line; optional parameters have a question mark."""
        parameters = ", ".join(one.name + "?" * (not one.required) for one in self.parameters)
        return f"{self.name}({parameters})" + (f": {self.description}" if self.description else "")


@dataclass(frozen=True, slots=True)
class Workflow:
    """The usual order of actions for one kind of request."""

    name: str
    actions: tuple[str, ...]
    flow: str = ""
    """The group of requests that it belongs to."""


@dataclass(frozen=True)
class Catalog:
    """All actions and workflows of a domain."""

    name: str
    version: str
    actions: tuple[Action, ...]
    workflows: tuple[Workflow, ...] = ()

    def __post_init__(self) -> None:
        if not self.actions:
            raise BadInputError(f'the catalog "{self.name}" has no action', fix="define at least one action")
        names = [one.name for one in self.actions]
        _check_unique([*names, *(alias for one in self.actions for alias in one.aliases)], "action or alias")
        _check_unique([one.name for one in self.workflows], "workflow")
        for action in self.actions:
            _check_unique([one.name for one in action.parameters], f'parameter of the action "{action.name}"')
        for workflow in self.workflows:
            if unknown := [name for name in workflow.actions if name not in names]:
                raise BadInputError(
                    f'the workflow "{workflow.name}" has the action "{unknown[0]}", which is not in the catalog',
                    fix="define the action, or correct its name in the workflow",
                )

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, each once."""
        return tuple(dict.fromkeys(one.name for action in self.actions for one in action.parameters))

    @property
    def flows(self) -> tuple[str, ...]:
        """The groups of workflows, each once."""
        return tuple(dict.fromkeys(one.flow for one in self.workflows if one.flow))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the catalog. Files made with another catalog have another digest."""
        return hashlib.sha256(json.dumps(asdict(self), ensure_ascii=False).encode()).hexdigest()

    @cached_property
    def _names(self) -> dict[str, Action]:
        # An exact name or alias comes before a spelling of it, and a name before an alias.
        return {
            **{normalise(alias): action for action in self.actions for alias in action.aliases},
            **{normalise(action.name): action for action in self.actions},
            **{alias: action for action in self.actions for alias in action.aliases},
            **{action.name: action for action in self.actions},
        }

    def find(self, name: str) -> Action | None:
        """The action of this name or alias, whatever its case and separators."""
        return self._names.get(name) or self._names.get(normalise(name))

    def canonical(self, action: str, parameter: str, value: str) -> str:
        """The allowed value of which this is a spelling, or the value itself."""
        known = self.find(action)
        found = known.find(parameter) if known else None
        return found.canonical(value) if found else value

    def with_observed(self, triggers: Iterable[Trigger]) -> Catalog:
        """The catalog with required parameters as observed.

        A parameter is required if every observed use of its action has it. Of an action with fewer than five uses the
        catalog keeps what it has: so few prove nothing.
        """
        uses: dict[str, list[Trigger]] = {}
        for trigger in triggers:
            uses.setdefault(_known(self.find(trigger.action), trigger.action).name, []).append(trigger)
        actions = []
        for action in self.actions:
            seen = uses.get(action.name, [])
            if len(seen) >= MIN_OBSERVED:
                parameters = tuple(
                    replace(one, required=all(one.name in use.values for use in seen)) for one in action.parameters
                )
                action = replace(action, parameters=parameters)
            actions.append(action)
        return replace(self, actions=tuple(actions))

    def render(self, style: Style) -> str:
        """The catalog as text for a prompt: a JSON schema or a signature for each action, the names, or nothing."""
        if style == "full":
            return "\n".join(json.dumps(_schema(action), ensure_ascii=False) for action in self.actions)
        if style == "signatures":
            return "\n".join(action.signature for action in self.actions)
        return ", ".join(action.name for action in self.actions) if style == "names" else ""


def _schema(action: Action) -> dict[str, Any]:
    properties = {}
    for one in action.parameters:
        facts = {"type": one.type, "description": one.description, "enum": list(one.values), "pattern": one.pattern}
        properties[one.name] = {key: value for key, value in facts.items() if value}
    required = [one.name for one in action.parameters if one.required]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"name": action.name, "kind": action.kind, "description": action.description, "parameters": parameters}


def _known(action: Action | None, name: str) -> Action:
    if action is None:
        raise BadInputError(f'the action "{name}" is not in the catalog', fix="add it, or an alias of an action there")
    return action


def _check_unique(names: Sequence[str], what: str) -> None:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise BadInputError(f'there is more than one {what} "{repeated[0]}"', fix="rename or remove one of them")


EPSILON = 1e-7


class Dependencies:
    """Transition probabilities between the actions of a domain."""

    def __init__(self, workflows: Iterable[Sequence[str]], actions: Iterable[str] = ()) -> None:
        """Count the transitions. `actions` are those that no workflow has."""
        workflows = [tuple(workflow) for workflow in workflows]
        self.actions = frozenset(actions).union(*workflows)
        if not self.actions:
            raise BadInputError("there is no action to count transitions of", fix="give workflows, or actions")
        self.transitions = Counter(pair for workflow in workflows for pair in pairwise(workflow))
        self._outgoing = Counter[str]()
        for (before, _), count in self.transitions.items():
            self._outgoing[before] += count

    @classmethod
    def of(cls, catalog: Catalog) -> Self:
        return cls((one.actions for one in catalog.workflows), (one.name for one in catalog.actions))

    def probability(self, before: str, after: str) -> float:
        """How likely `after` is the action that follows `before`; 0 for an action that the domain doesn't have."""
        if before not in self.actions or after not in self.actions:
            return 0.0
        return (self.transitions[before, after] + EPSILON) / (self._outgoing[before] + EPSILON * len(self.actions))

    def alignment(self, before: Sequence[str], after: Sequence[str]) -> float | None:
        """AD of a prediction, given the one before it."""
        if not before or not after:
            return None
        return sum(self.probability(first, second) for second in after for first in before) / len(after)
