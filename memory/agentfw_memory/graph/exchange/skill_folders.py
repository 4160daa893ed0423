"""Reads and writes Agent Skills: folders with a file SKILL.md, which has a name, a description and instructions.

    for skill in read_skill_folders("skills"):
        print(skill.name, skill.description)
    graph.add_all(as_new_skill(skill, owner="ana") for skill in read_skill_folders("skills"))

In a graph, a skill is one text: name, description and instructions, so that all three are searched. What a graph knows
of a skill is in the `metadata` of its file. A text is written to a file only after a person has reviewed it, as
`reviewed` says: it is the digest of the text that was read, so a later text isn't reviewed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...errors import BadInputError
from ..records import NewSkill, Skill, SkillHistory
from .foreign_import import new_skill

FILE = "SKILL.md"
COUNTED = ("uses", "successes", "history")  # what a graph knows by itself of the skills that it writes
SUCCESS = 0.5  # the reward from which a use counts as a success
_LARGEST = 1_000_000  # bytes of a SKILL.md
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1_024  # characters, as the format says


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """One SKILL.md, and the folder that it is in."""

    name: str
    description: str
    body: str
    folder: Path
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.name}: {self.description}\n\n{self.body}"

    def files(self) -> list[str]:
        """The other files of the skill, by their paths in its folder."""
        found = (path.relative_to(self.folder) for path in _walked(self.folder))
        return [path.as_posix() for path in found if str(path) != FILE]


def read_skill_folders(folder: str | Path) -> list[AgentSkill]:
    """Return the skills of a folder: its own SKILL.md, or all of those in folders below it, by their paths."""
    top = Path(folder)
    files = [path for path in _walked(top) if path.name == FILE]
    files = [top / FILE] if top / FILE in files else files
    if not files:
        raise BadInputError(f"{folder} has no {FILE}", fix=f"name a folder of skills, each a folder with a {FILE}")
    return [read_skill(file) for file in files]


def read_skill(file: Path) -> AgentSkill:
    import yaml

    fix = f'begin {FILE} with lines "---", "name: ...", "description: ..." and "---"'
    try:
        with file.open("rb") as opened:
            text = opened.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise BadInputError(f"{file} has more than {_LARGEST:,} bytes", fix="move a part into files beside it")
        found = re.match(r"---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n(.*))?$", text.decode("utf-8-sig"), re.DOTALL)
    except OSError as error:
        raise BadInputError(f"{file} can't be read: {error.strerror}", fix="make the file readable") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file} isn't UTF-8 text", fix="save the file as UTF-8") from None
    if found is None:
        raise BadInputError(f"{file} doesn't begin with its name and description", fix=fix)
    try:
        head = yaml.safe_load(found[1])
    except yaml.YAMLError:  # many have a colon in a description without quotes
        head = dict(re.findall(r"^([\w-]+):[ \t]+(.*)$", found[1], re.MULTILINE))
    head = head if isinstance(head, dict) else {}
    name, description = (" ".join(str(head.get(key) or "").split()) for key in ("name", "description"))
    if not description:
        raise BadInputError(f"{file} has no description", fix=fix)
    more = head.get("metadata")
    metadata = {str(key): str(value) for key, value in more.items()} if isinstance(more, Mapping) else {}
    return AgentSkill(name or file.parent.name, description, (found[2] or "").strip(), file.parent, metadata)


def _walked(folder: Path) -> Iterator[Path]:
    """The files below a folder, sorted. Hidden ones and links are left out: these may lead out of the folder."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        whole = (Path(here, name) for name in sorted(files) if not name.startswith("."))
        yield from (path for path in whole if not path.is_symlink())


def as_new_skill(skill: AgentSkill, *, owner: str = "", reviewed: bool = False) -> NewSkill:
    """A skill to add to a graph. `owner` owns those whose metadata names nobody. `reviewed`: a person has read it."""
    known = dict(skill.metadata)
    named, shared, since = known.pop("owner", ""), known.pop("visibility", "") == "shared", known.pop("since", "")
    lists: dict[str, Any] = {key: known.pop(key, "") or None for key in ("tools", "scenarios")}
    for key, one in lists.items():
        with suppress(ValueError):  # what isn't JSON is refused below, by what it says
            lists[key] = one and json.loads(one)
    # A text that a graph has written is all there is: its description is the beginning of it.
    made_here = known.pop("text", "") == "whole"
    text = skill.body if made_here else skill.text
    about: dict[str, Any] = {} if made_here else {"skill": skill.name, "description": skill.description}
    about |= {key: value for key, value in known.items() if key not in ("reviewed", *COUNTED)}
    about |= {"reviewed": review_mark(text)} if reviewed else {}
    record = {"text": text, "owner": named, "shared": shared, "valid_from": since or None, "metadata": about}
    try:
        return new_skill({**record, **lists}, owner)
    except ValueError as error:
        fix = 'correct it there, with lists as \'["mail", "web"]\'; for skills that name no owner, pass --owner NAME'
        raise BadInputError(f"{skill.folder}: {error}", fix=fix) from None


def review_mark(text: str) -> str:
    """What `reviewed` is for a text that a person has read."""
    return sha256(text.encode()).hexdigest()[:16]


def is_reviewed(skill: Skill) -> bool:
    return skill.metadata.get("reviewed") == review_mark(skill.text)


def write_skill_folders(folder: str | Path, skills: Iterable[tuple[Skill, SkillHistory]]) -> list[Path]:
    """Write skills as folders with a SKILL.md, where these are reviewed. Return the files. A SKILL.md that is there is
    replaced, and the other files of its folder stay."""
    written: list[Path] = []
    for skill, history in skills:
        if not is_reviewed(skill):
            continue
        name = str(skill.metadata.get("skill") or _slug(skill.text))
        if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) is None or len(name) > _LONGEST_NAME:
            name = _slug(name)
        if Path(folder, name, FILE) in written:
            name = f"{name[: _LONGEST_NAME - 20]}-{skill.id}"
        file = Path(folder, name, FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{FILE}.{os.getpid()}.partial")
        partial.write_text(_written(name, skill, history), "utf-8")
        partial.replace(file)
        written.append(file)
    return written


def _slug(text: str) -> str:
    """A name for a skill that has none: the first words of its text."""
    name = ""
    for word in re.findall(r"[a-z0-9]+", text.lower())[:8]:
        if len(name) + len(word) < 48:
            name += f"-{word}" if name else word
    return name or f"skill-{review_mark(text)}"


def _written(name: str, skill: Skill, history: SkillHistory) -> str:
    """The SKILL.md of a skill. JSON strings are YAML."""
    about = {key: str(value) for key, value in skill.metadata.items() if key not in ("skill", "description")}
    description = str(skill.metadata.get("description", ""))
    start = f"{skill.metadata.get('skill')}: {description}\n\n"
    if description and skill.text.startswith(start):
        body = skill.text.removeprefix(start)
    else:
        body, about["text"] = skill.text, "whole"
        description = " ".join(skill.text.split())[:_LONGEST_DESCRIPTION]
    earlier: dict[str, dict[str, str]] = {}
    for one in history.versions:
        if one.valid_to is not None and one.text != skill.text:
            earlier[one.text] = {"text": one.text, "from": _day(one.valid_from), "to": _day(one.valid_to)}
    used = [edge.weight for edge in history.edges if edge.kind == "EXECUTED" and edge.valid_to is None]
    about |= {"owner": skill.owner, "visibility": skill.visibility, "since": _day(skill.valid_from)}
    about |= {"uses": str(skill.uses), "successes": str(sum(reward >= SUCCESS for reward in used))}
    lists = {"tools": skill.tools, "scenarios": skill.scenarios, "history": tuple(earlier.values())}
    about |= {key: json.dumps(value, ensure_ascii=False) for key, value in lists.items() if value}
    head = [f"name: {name}", f"description: {json.dumps(description, ensure_ascii=False)}", "metadata:"]
    head += [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in sorted(about.items())]
    return "\n".join(["---", *head, "---", "", body, ""])


def _day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")
