"""Dialogues with references, split into train, validation and test: from a folder, or generated.

A folder of data has `dialogues.jsonl.gz`, `annotations.jsonl.gz` and `MANIFEST.json`, which names the domain and the
digest of the catalog that the references were made with.

    >>> from agentfw_papers.worlds.proactive.domains import domain_names, load_domain
    >>> [example] = generated(load_domain(domain_names()[0]), "train", seed=7, count=1)
    >>> example.annotation.length == len(example.dialogue.turns)
    True
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from agentfw.errors import UsageError
from agentfw.runs import write_whole
from agentfw_papers.timing import (
    Annotation,
    Catalog,
    Dialogue,
    Domain,
    Input,
    Opportunity,
    TurnOpportunities,
    annotation_row,
    read_annotations,
    read_dialogues,
    write_rows,
)
from agentfw_plugins.rewards import translated_errors

from .generator import DialogueGenerator
from .settings import GeneratorSettings

SPLITS = ("train", "validation", "test")
DIALOGUES, ANNOTATIONS, MANIFEST = "dialogues.jsonl.gz", "annotations.jsonl.gz", "MANIFEST.json"
_PLACEHOLDER = re.compile(r"<([\w.-]+)>")


@dataclass(frozen=True)
class Example:
    """A dialogue with its references. `annotation.at(turn).opportunities` and `annotation.windows` say what is due."""

    dialogue: Dialogue
    annotation: Annotation

    @property
    def id(self) -> str:
        return self.dialogue.id


@dataclass(frozen=True)
class Dataset:
    """The dialogues of a folder."""

    folder: Path
    manifest: Mapping[str, Any]
    examples: tuple[Example, ...]

    @cached_property
    def splits(self) -> dict[str, tuple[Example, ...]]:
        return {split: tuple(one for one in self.examples if one.dialogue.split == split) for split in SPLITS}

    def check_catalog(self, catalog: Catalog) -> None:
        """Raise UsageError if the references were made with another catalog."""
        made_with = self.manifest.get("catalog", "")
        if made_with != catalog.digest:
            raise UsageError(
                f"{self.folder} was made with the catalog {made_with[:12] or 'of no name'}, but the domain"
                f' "{catalog.name}" now has {catalog.digest[:12]}',
                fix="annotate the data again, or use the domain that it was made with",
            )


def generated(
    domain: Domain, split: str, seed: int, count: int, settings: GeneratorSettings | None = None
) -> tuple[Example, ...]:
    """The first `count` generated dialogues of a split. Dialogue n is the same, however many are generated."""
    generator = DialogueGenerator(domain, split, seed, settings or GeneratorSettings())
    return tuple(Example(*generator.dialogue(index)) for index in range(count))


def read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder} is not a folder of dialogues: {error}",
            fix=f"make one: agentfw proactive make --domain DOMAIN --out {folder}",
        ) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("domain"), str):
        raise UsageError(f"{folder / MANIFEST} names no domain", fix="make or import the data again")
    return manifest


def load_data(folder: str | Path) -> Dataset:
    """Read a folder of data. Dialogues without references are left out."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if not (folder / ANNOTATIONS).exists():
        raise UsageError(
            f"{folder} has dialogues without references",
            fix=f"annotate them: agentfw proactive annotate {folder} --rule --out ANNOTATED",
        )
    with translated_errors():
        annotations = {one.dialogue: one for one in read_annotations(folder / ANNOTATIONS)}
        dialogues = read_dialogues(folder / DIALOGUES)
    examples = tuple(Example(one, annotations[one.id]) for one in dialogues if one.id in annotations)
    for one in examples:
        if one.annotation.length != len(one.dialogue.turns):
            raise UsageError(
                f'the references of dialogue "{one.id}" are for {one.annotation.length} turns, but it has'
                f" {len(one.dialogue.turns)}",
                fix=f"annotate the dialogues of {folder} again",
            )
    return Dataset(folder, manifest, examples)


def write_data(folder: Path, examples: Sequence[Example], catalog: Catalog, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write dialogues with their references. `facts` are added to the manifest, which is returned."""
    return write_examples(folder, examples, {"domain": catalog.name, "catalog": catalog.digest, **facts})


def write_examples(folder: Path, examples: Sequence[Example], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write dialogues with their references; `facts` name the domain and the digest of its catalog."""
    with translated_errors():
        write_rows(folder / ANNOTATIONS, (annotation_row(one.annotation) for one in examples))
    return write_dialogues(folder, [one.dialogue for one in examples], facts)


def write_dialogues(folder: Path, dialogues: Sequence[Dialogue], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write dialogues, and the manifest as the last file."""
    with translated_errors():
        write_rows(folder / DIALOGUES, (one.as_dict() for one in dialogues))
    manifest = {
        **facts,
        "dialogues": {split: sum(one.split == split for one in dialogues) for split in SPLITS},
        "turns": sum(len(one.turns) for one in dialogues),
        "triggers": sum(len(one.triggers) for one in dialogues),
    }
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return manifest


def with_placeholders(example: Example) -> Example:
    """The example with placeholders such as <email> for values, in its texts, triggers and references.

    A value is replaced if the dialogue's own texts with placeholders have one for it.
    """
    dialogue = example.dialogue
    replaced = {name for turn in dialogue.turns for name in _PLACEHOLDER.findall(turn.delexed)}

    def value_of(name: str, value: str | None) -> str | None:
        return f"<{name}>" if value is not None and name in replaced else value

    def of(one: Opportunity) -> Opportunity:
        required, optional = (
            tuple(Input(each.name, each.provided, value_of(each.name, each.value)) for each in listed)
            for listed in (one.required, one.optional)
        )
        return replace(one, required=required, optional=optional)

    turns = tuple(replace(turn, text=turn.delexed or turn.text) for turn in dialogue.turns)
    triggers = tuple(
        replace(one, values={name: value_of(name, value) or "" for name, value in one.values.items()})
        for one in dialogue.triggers
    )
    references = tuple(
        TurnOpportunities(turn.dialogue, turn.turn, tuple(map(of, turn.opportunities)), turn.questions)
        for turn in example.annotation.turns
    )
    return Example(
        replace(dialogue, turns=turns, triggers=triggers),
        Annotation(dialogue.id, example.annotation.length, references),
    )
