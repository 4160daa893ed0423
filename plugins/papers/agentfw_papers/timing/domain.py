"""A domain: its action catalog and what else is known of its dialogues, read from a YAML file.

    name: bakery
    version: "1"
    slots:
      cake: {values: [apple, plum]}
      day: {pattern: "[a-z]+day"}
    actions:
      look-up-customer: {}
      order-cake: {parameters: [cake, day], required: [cake], aliases: [Order]}
    workflows:
      birthday: [look-up-customer, order-cake]

Actions can also come from files that are there already, named under `sources`, each with the reader that understands it
(see `agentfw_papers.timing.readers`). What the YAML file says about them then overrides what the sources say:

    sources:
      - {reader: ontology, file: ontology.json, workflows: workflows.json}
    actions:
      notify-team: {description: Tell a team within the company, aliases: [Notify Internal Team]}

No code knows a domain by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfw_papers.timing.catalog import Action, Catalog, Parameter, Workflow
from agentfw_papers.timing.dialogues import Speaker
from agentfw_rewardmodels import BadInputError

if TYPE_CHECKING:
    from agentfw_papers.timing.domain_file import ActionSection, SlotSection


@dataclass(frozen=True)
class Domain:
    """A catalog, and how the domain's dialogues are made up."""

    catalog: Catalog
    observed: bool = True
    """Whether the dialogues say which actions were triggered."""
    speakers: Mapping[str, Speaker] = field(default_factory=dict)
    """From the names of speakers in the data to customer, professional or action."""
    phrases: Mapping[str, Any] = field(default_factory=dict)
    """Sentences for generated dialogues, as they stand in the file."""


def load_domain(path: str | os.PathLike[str]) -> Domain:
    """Read a domain from its YAML file. Paths of sources are relative to the file."""
    # pydantic and yaml are only needed here.
    from agentfw_papers.timing.domain_file import in_file, read_domain_file

    file, definitions = read_domain_file(Path(path))
    with in_file(Path(path)):
        catalog = Catalog(
            file.name,
            file.version,
            tuple(_action(name, action, definitions.slots) for name, action in definitions.actions.items()),
            tuple(Workflow(name, tuple(one.actions), one.flow) for name, one in definitions.workflows.items()),
        )
    return Domain(catalog, file.observed, file.speakers, file.phrases)


def _action(name: str, action: ActionSection, slots: Mapping[str, SlotSection]) -> Action:
    given = action.parameters
    if isinstance(given, list):
        if unknown := [one for one in given if one not in slots]:
            raise BadInputError(
                f'actions.{name}.parameters: there is no slot "{unknown[0]}"',
                fix=f"define slots.{unknown[0]}, or correct the name",
            )
        given = {one: slots[one] for one in given}
    if unknown := [one for one in action.required if one not in given]:
        raise BadInputError(
            f'actions.{name}.required: "{unknown[0]}" is not a parameter of this action',
            fix=f"add it to actions.{name}.parameters, or correct the name",
        )
    parameters = tuple(
        Parameter(one, slot.type, slot.values, slot.pattern, slot.description, one in action.required)
        for one, slot in given.items()
    )
    return Action(name, action.kind, action.group, action.description, parameters, tuple(action.aliases))
