"""An organisation's schema, read from YAML: its roles, their meetings M(r), principles P(r) and conflict reasons C(r).

Reading is strict: an unknown key or name is an error with the nearest known one. docs/guides/organisations.md shows the
format. A principle depends on the visible tags alone, so everything that decides a round can be read from its lines.

    >>> words = {"label": "due today", "for": ["it's due"], "against": ["so what"]}
    >>> due_today = Principle.model_validate({**words, "when": {"due": "today"}})
    >>> due_today.triggers({"due": "today"}), due_today.triggers({"due": "week"})
    (True, False)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from agentfw.boundary.settings_input import validate
from agentfw.errors import SettingsError, nearest
from agentfw.printing.out import docs_page

from .event_attributes import CHOICES, OUTSIDE, RELATIONS

CADENCES = {"weekly": 1, "biweekly": 2, "monthly": 4}  # interval in weeks
_NUMBERS = {"size": ("size", 1, 60), "minutes": ("min", 5, 480)}
_SETTABLE = ("due", "urgency", "place", "notice", "hold")
_WORK = tuple(topic for topic in CHOICES["topic"] if topic not in ("social", "personal"))


def known(value: str, choices: Iterable[str]) -> str:
    """The value, if it is one of these."""
    names = tuple(choices)
    if value not in names:
        raise ValueError(f'"{value}" is not known here; {_hint(value, names)}')
    return value


def _hint(name: str, names: Iterable[str]) -> str:
    guess = nearest(name, names)
    return f'did you mean "{guess}"?' if guess else f"there is: {', '.join(names)}"


def one_of(choices: Iterable[str]) -> AfterValidator:
    return AfterValidator(lambda value: known(value, choices))


def _span(given: Any) -> Any:
    """A number, or a span such as 2-5."""
    first, dash, last = str(given).partition("-")
    try:
        return int(first), int(last) if dash else int(first)
    except ValueError:
        raise ValueError("must be a number or a span such as 2-5") from None


Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Two = Annotated[tuple[Text, ...], Field(min_length=2)]
Topic = Annotated[str, one_of(CHOICES["topic"])]
Relation = Annotated[str, one_of(RELATIONS)]
Span = Annotated[tuple[int, int], BeforeValidator(_span)]
People = dict[Relation, Span]
Share = Annotated[float, Field(ge=0, le=1000)]


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid")
    __hash__ = object.__hash__  # a key of caches: the same until its file has changed
    name: str = Field("", alias="(name)")  # the key that it stands at


class Conditions(NamedTuple):
    """What must hold of an event's tags."""

    values: Mapping[str, tuple[str, ...]]
    """Tags and their allowed values; for `who`, one of these relations must attend."""
    bounds: tuple[tuple[str, int, int], ...]  # numeric tags with their minimum and maximum


def _conditions(given: Any) -> Any:
    if not isinstance(given, dict) or not given:
        raise ValueError("must have at least one condition; it would hold for every event")
    values, bounds = dict[str, tuple[str, ...]](), list[tuple[str, int, int]]()
    for key, value in given.items():
        if key in _NUMBERS:
            tag, low, high = _NUMBERS[key]
            limits = value if isinstance(value, dict) else {"at_least": value, "at_most": value}
            for limit in limits:
                known(limit, ("at_least", "at_most"))
            least, most = int(limits.get("at_least", low)), int(limits.get("at_most", high))
            if not low <= least <= most <= high:
                raise ValueError(f"no event can have at least {least} and at most {most} as {key}")
            bounds.append((tag, least, most))
        elif key == "who" or key in CHOICES:
            choices = (*RELATIONS, "nobody") if key == "who" else CHOICES[key]
            values[key] = tuple(known(one, choices) for one in (value if isinstance(value, list) else [value]))
        else:
            raise ValueError(f"events have no such attribute as {key}; there is: {', '.join((*_NUMBERS, *CHOICES))}")
    return Conditions(values, tuple(bounds))


class Principle(Table):
    """One thing that may matter to a user, and how people express it."""

    label: Short
    when: Annotated[Conditions, BeforeValidator(_conditions)]
    praise: Texts = Field(alias="for")
    complaint: Texts = Field(alias="against")

    def triggers(self, tags: Mapping[str, str]) -> bool:
        values, bounds = self.when
        for tag, wanted in values.items():
            if tags[tag] not in wanted and (tag != "who" or set(wanted).isdisjoint(tags["who"].split(","))):
                return False
        return all(least <= int(tags[tag]) <= most for tag, least, most in bounds)


class Vocabulary(Table):
    """The vocabulary that all organisations share."""

    principles: dict[str, Principle]
    first_names: Two
    last_names: Two


class Meeting(Table):
    """A template of events: a regular meeting if it has a cadence, else an occasion that may come up."""

    titles: Annotated[tuple[Short, ...], Field(min_length=1)]
    topic: Topic
    cadence: Annotated[str, one_of(CADENCES)] = "none"
    minutes: dict[Annotated[int, Field(ge=15, le=240, multiple_of=15)], Share]
    """Relative frequency of each duration."""
    by: Annotated[str, one_of(CHOICES["by"])]
    who: People  # number of attendees by relation, besides the organiser
    place: dict[Annotated[str, one_of(CHOICES["place"])], Share]
    hold: Annotated[str, one_of(CHOICES["hold"])] = "none"
    soft: tuple[Annotated[str, one_of(("mornings", "afternoons", "no_back_to_back"))], ...] = ()

    @model_validator(mode="after")
    def _fills_its_titles(self) -> Self:
        comes = {self.by, *(name for name, (least, _) in self.who.items() if least)} - {"self"}
        _check_slots(self.titles, {"project", *comes} | ({"person"} if comes else set()))
        return self


class Reason(Table):
    """A conflict reason: an operator that turns an event into a plausible competitor of another."""

    sets: dict[Annotated[str, one_of(_SETTABLE)], str] = Field(default_factory=dict, alias="set")
    adds: People = Field(default_factory=dict, alias="add")
    only: Relation = ""  # a relation of which one person attends, and nobody else. Empty if the attendees stay
    longer: int = Field(0, ge=15, le=120, multiple_of=15)
    notes: Texts
    topics: Annotated[tuple[Topic, ...], Field(min_length=1)] = _WORK
    """Topics of the events that it fits: no birthday cake is due today."""

    @model_validator(mode="after")
    def _sets_what_there_is(self) -> Self:
        for key, value in self.sets.items():
            known(value, CHOICES[key])
        _check_slots(self.notes, {"project", *self.adds, self.only} - {""})
        return self


class Role(Table):
    """One position."""

    title: Short
    people: Span
    reports_to: str = ""
    is_user: bool = Field(True, alias="user")
    accepts: float = Field(0.35, ge=0.05, le=0.95)  # probability that the regular meeting is kept
    meetings: tuple[Meeting, ...] = ()
    principles: dict[str, Annotated[int, Field(ge=-6, le=6)]] = Field(default_factory=dict)
    reasons: tuple[str, ...] = ()


class Outsiders(Table):
    """Contacts from outside, of one relation."""

    title: Short = Field(alias="as")
    firms: Texts


class Names(Table):
    """Parts of an instance's name."""

    first: Two
    second: Texts


class Schema(Table):
    """The schema of one archetype of organisations. Its name is that of the file."""

    archetype: Short = Field(alias="organisation")
    names: Names
    projects: Two
    rooms: Two
    sites: Texts
    outsiders: dict[Annotated[str, one_of(OUTSIDE)], Outsiders]
    reasons: dict[str, Reason]
    occasions: Annotated[tuple[Meeting, ...], Field(min_length=6)]
    roles: dict[str, Role]
    principles: dict[str, Principle] = Field(default_factory=dict)
    """The shared vocabulary and the principles of the file."""

    @property
    def user_roles(self) -> tuple[Role, ...]:
        return tuple(role for role in self.roles.values() if role.is_user)

    def problems(self) -> Iterator[tuple[str, str]]:
        """The names that stand for nothing, with the dotted key of each."""
        for name, role in self.roles.items():
            if role.reports_to and role.reports_to not in self.roles:
                yield f"roles.{name}.reports_to", f"there is no such role; {_hint(role.reports_to, self.roles)}"
            for key in role.principles.keys() - self.principles.keys():
                yield f"roles.{name}.principles.{key}", f"no such principle; {_hint(key, self.principles)}"
            for reason in {*role.reasons} - self.reasons.keys():
                yield f"roles.{name}.reasons", f"no such reason as {reason}; {_hint(reason, self.reasons)}"


def _check_slots(texts: Iterable[str], allowed: set[str]) -> None:
    """Check that a title or a note only names what the event always has."""
    for text in texts:
        try:
            slots = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise ValueError(f'"{text}" has a stray brace: {error}') from None
        for slot in slots:
            if slot not in allowed:
                raise ValueError(f"{{{slot}}} can't be filled in here; there is: {', '.join(sorted(allowed))}")
        if "|" in text or "\n" in text:
            raise ValueError(f'"{text}" must be one line without "|", which separates title and tags')


Some = TypeVar("Some", bound=Table)

_FIX = f"see {docs_page('docs/guides/organisations.md')}"


@cache
def vocabulary() -> Vocabulary:
    return _read(Path(__file__).parent / "vocabulary.yaml", Vocabulary)


def load_schema(path: Path) -> Schema:
    """Read and check one file."""
    schema = _read(path, Schema)
    schema = schema.model_copy(update={"principles": {**vocabulary().principles, **schema.principles}})
    for key, problem in schema.problems():
        raise SettingsError(f"{path.name}: {key}: {problem}", fix=_FIX)
    return schema


def load_folder(folder: Path) -> tuple[Schema, ...]:
    """All schemas of a folder, in the order of their file names."""
    if not folder.is_dir():
        raise SettingsError(f"there is no directory {folder}", fix="pass a directory of YAML files of organisations")
    paths = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")], key=lambda path: path.name)
    if not paths:
        raise SettingsError(f"{folder} has no .yaml file", fix="copy one of the shipped schemas there and change it")
    return _loaded(tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths))


@lru_cache(maxsize=8)
def _loaded(files: tuple[tuple[Path, int, int], ...]) -> tuple[Schema, ...]:
    """Each episode asks for them. A file that has changed is read again."""
    schemas: dict[str, Schema] = {}
    for path, _, _ in files:
        schema = load_schema(path)
        if schema.archetype in schemas:
            problem = f'{path.name}: "{schema.archetype}" is described by another file already'
            raise SettingsError(problem, fix="change the `organisation:` of one of them")
        schemas[schema.archetype] = schema
    return tuple(schemas.values())


def shipped_schemas() -> tuple[Schema, ...]:
    return load_folder(Path(__file__).parent / "organisations")


def _read(path: Path, model: type[Some]) -> Some:
    try:
        # Every value as text. libyaml is ten times faster and comes with nearly every PyYAML.
        values = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
        if not isinstance(values, dict):
            raise ValueError("it is no table of keys and values")
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SettingsError(f"can't read {path}: {error}", fix="pass a YAML file in UTF-8") from None
    try:
        found = validate(model, values, path.name)
    except SettingsError as error:
        raise SettingsError(error.message, fix=_FIX) from None
    assert isinstance(found, model)
    found.name = path.name
    _name_tables(found)
    return found


def _name_tables(table: Table) -> None:
    """Give the tables in a table the names of their keys. A meeting is called by its role and its place."""
    for key, value in table:
        for name, inner in value.items() if isinstance(value, dict) else ():
            if isinstance(inner, Table):
                inner.name = name
                _name_tables(inner)
        for place, inner in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(inner, Meeting):
                inner.name = f"{'occasion' if key == 'occasions' else table.name}.{place}"
