"""An organisation's schema, read from YAML: its roles, their meetings M(r), principles P(r) and conflict reasons C(r).

A schema that loads can be generated. What would fail later (an unknown principle, a pattern that needs reports where
nobody has any, more meetings than fit into a week) is refused here, with file, line and reason. Reading is strict: an
unknown key is an error with the nearest known one, and so is a key that is written twice, of which plain YAML silently
drops the first.

    schema = load_schema(Path("bakery.yaml"))
    schema.roles["baker"].principles      # {"due_today": 4, "vendor": -2, ...}

A principle is what a user may care about, as conditions on the visible tags of an event. It depends on the tags alone,
so everything that decides a round can be read from its lines.

    >>> words = {"label": "due today", "for": ["it's due"], "against": ["so what"]}
    >>> due_today = Principle.model_validate({**words, "when": {"due": "today"}})
    >>> due_today.triggers({"due": "today"}), due_today.triggers({"due": "week"})
    (True, False)

In YAML, `when` is a table of conditions that must all hold: `due: today`, `hold: [fixed, must]`, `who: client`
(somebody like that comes), `size: 2`, `minutes: {at_least: 90}`. Keys are those of the line, with `minutes` for `min`.

docs/guides/organisations.md shows the format. The shipped schemas in `organisations/` are longer examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from math import inf
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from agentfw.boundary.settings_input import validate
from agentfw.errors import SettingsError, nearest

from .event_attributes import CHOICES, OUTSIDE, RELATIONS

CADENCES = {"weekly": 1, "biweekly": 2, "monthly": 4}
"""Interval in weeks."""
_NUMBERS = {"size": ("size", 1, 60), "minutes": ("min", 5, 480)}
_SETTABLE = ("due", "urgency", "place", "notice", "hold")
_WORK = tuple(topic for topic in CHOICES["topic"] if topic not in ("social", "personal"))
_FULLEST_WEEK = 30 * 60
"""Maximum minutes of meetings in a role's fullest week; more can't be placed without overlaps."""


# -- values ------------------------------------------------------------------------------------------------------------


def known(value: str, choices: Iterable[str]) -> str:
    """The value, if it is one of these."""
    names = tuple(choices)
    if value not in names:
        guess = nearest(value, names)
        raise ValueError(f'"{value}" is not known here; {_hint(guess, names)}')
    return value


def _hint(guess: str | None, names: Iterable[str]) -> str:
    return f'did you mean "{guess}"?' if guess else f"there is: {', '.join(names)}"


def one_of(choices: Iterable[str]) -> AfterValidator:
    return AfterValidator(lambda value: known(value, choices))


def several(least: int) -> AfterValidator:
    """At least so many values, which are all different."""

    def check(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(values) < least:
            raise ValueError(f"must have at least {least} items (it has {len(values)})")
        for place, value in enumerate(values):
            if value in values[:place]:
                raise ValueError(f'"{value}" appears twice')
        return values

    return AfterValidator(check)


def _span(given: Any) -> Any:
    """A number, or a span such as 2-5."""
    first, dash, last = str(given).partition("-")
    try:
        return int(first), int(last) if dash else int(first)
    except ValueError:
        raise ValueError("must be a number or a span such as 2-5") from None


def between(low: int, high: int) -> AfterValidator:
    def check(span: tuple[int, int]) -> tuple[int, int]:
        if not low <= span[0] <= span[1] <= high:
            raise ValueError(f"must be ascending and between {low} and {high}")
        return span

    return AfterValidator(check)


def _duration(minutes: int) -> int:
    if not 15 <= minutes <= 240 or minutes % 15:
        raise ValueError("a duration is a multiple of 15 minutes from 15 to 240")
    return minutes


def _some_share(shares: dict[Any, float]) -> dict[Any, float]:
    if not sum(shares.values()) > 0:
        raise ValueError("must have at least one share above 0")
    return shares


Short = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]
Texts = Annotated[tuple[Text, ...], several(1)]
Two = Annotated[tuple[Text, ...], several(2)]
Topic = Annotated[str, one_of(CHOICES["topic"])]
Relation = Annotated[str, one_of(RELATIONS)]
People = dict[Relation, Annotated[tuple[int, int], BeforeValidator(_span), between(0, 20)]]
Share = Annotated[float, Field(ge=0, le=1000)]


class Table(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field("", alias="(name)")
    """The key that it stands at."""


class Conditions(NamedTuple):
    """What must hold of an event's tags."""

    values: Mapping[str, tuple[str, ...]]
    """Tags and their allowed values; for `who`, one of these relations must attend."""
    bounds: tuple[tuple[str, int, int], ...]
    """Numeric tags with their minimum and maximum."""


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
            if tag == "who":
                if not any(relation in wanted for relation in tags["who"].split(",")):
                    return False
            elif tags[tag] not in wanted:
                return False
        return all(least <= int(tags[tag]) <= most for tag, least, most in bounds)


class Vocabulary(Table):
    """The vocabulary that all organisations share."""

    principles: dict[str, Principle]
    first_names: Two
    last_names: Two


# -- organisations -----------------------------------------------------------------------------------------------------


class Meeting(Table):
    """A template of events: a regular meeting if it has a cadence, else an occasion that may come up."""

    titles: Annotated[tuple[Short, ...], several(1)]
    topic: Topic
    cadence: Annotated[str, one_of(CADENCES)] = "none"
    minutes: Annotated[dict[Annotated[int, AfterValidator(_duration)], Share], AfterValidator(_some_share)]
    """Relative frequency of each duration."""
    by: Annotated[str, one_of(CHOICES["by"])]
    who: People
    """Number of attendees by relation, besides the organiser."""
    place: Annotated[dict[Annotated[str, one_of(CHOICES["place"])], Share], AfterValidator(_some_share)]
    hold: Annotated[str, one_of(CHOICES["hold"])] = "none"
    soft: tuple[Annotated[str, one_of(("mornings", "afternoons", "no_back_to_back"))], ...] = ()

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        comes = {self.by, *(name for name, (least, _) in self.who.items() if least)} - {"self"}
        _check_slots(self.titles, {"project", *comes} | ({"person"} if comes else set()))
        if self.topic == "personal" and (self.by != "self" or self.who):
            raise ValueError("a personal appointment has by: self and who: {}")
        if self.topic != "personal" and not comes:
            raise ValueError("somebody must come; only a personal appointment is for the user alone")
        return self


class Reason(Table):
    """A conflict reason: an operator that turns an event into a plausible competitor of another."""

    sets: dict[Annotated[str, one_of(_SETTABLE)], str] = Field(default_factory=dict, alias="set")
    adds: People = Field(default_factory=dict, alias="add")
    only: Relation = ""
    """A relation of which one person attends, and nobody else. Empty if the attendees stay."""
    longer: int = Field(0, ge=15, le=120)
    notes: Texts
    topics: Annotated[tuple[Topic, ...], several(1)] = _WORK
    """Topics of the events that it fits: no birthday cake is due today."""

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        if not (self.sets or self.adds or self.only or self.longer):
            raise ValueError("has no effect; add set, add, only or longer")
        for key, value in self.sets.items():
            known(value, CHOICES[key])
        if self.only and self.adds:
            raise ValueError("only can't be combined with add; it means that nobody else comes")
        if "personal" in self.topics and (self.adds or self.only):
            raise ValueError("nobody else comes to a personal appointment, so add and only can't apply to it")
        _check_slots(self.notes, {"project", *self.adds, self.only} - {""})
        return self


class Role(Table):
    """One position."""

    title: Short
    people: Annotated[tuple[int, int], BeforeValidator(_span), between(1, 30)]
    reports_to: str = ""
    is_user: bool = Field(True, alias="user")
    accepts: float = Field(0.35, ge=0.05, le=0.95)
    """Probability that the regular meeting is kept."""
    meetings: tuple[Meeting, ...] = ()
    principles: dict[str, Annotated[int, Field(ge=-6, le=6)]] = Field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_a_calendar(self) -> Self:
        own = ("meetings", "principles", "reasons")
        if not self.is_user:
            if unused := [key for key in ("accepts", *own) if key in self.model_fields_set]:
                raise ValueError(f"a role with user: false has no calendar of its own; remove {', '.join(unused)}")
            return self
        if missing := [key for key in own if key not in self.model_fields_set]:
            raise ValueError(f'"{missing[0]}" is missing (or set user: false)')
        if len(self.meetings) < 3 or len(self.reasons) < 3:
            raise ValueError("must have at least 3 meetings and 3 reasons")
        total = sum(max(length for length, share in meeting.minutes.items() if share) for meeting in self.meetings)
        if total > _FULLEST_WEEK:
            raise ValueError(
                f"{total / 60:g} hours of meetings can fall into one week; more than {_FULLEST_WEEK / 60:g} leave no "
                "room"
            )
        if sum(meeting.cadence == "weekly" for meeting in self.meetings) < 2:
            raise ValueError("at least two meetings must be weekly; two conflicts a week need something to fall on")
        if zero := [name for name, weight in self.principles.items() if not weight]:
            raise ValueError(f"a weight of 0 has no effect; remove the principle {zero[0]}")
        if len(self.principles) < 4:
            raise ValueError(f"must have at least 4 principles (it has {len(self.principles)})")
        if sum(weight > 0 for weight in self.principles.values()) < 2:
            raise ValueError("at least two weights must be above 0")
        return self


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
    occasions: Annotated[tuple[Meeting, ...], several(6)]
    roles: dict[str, Role]
    principles: dict[str, Principle] = Field(default_factory=dict)
    """The shared vocabulary and the principles of the file."""

    @property
    def user_roles(self) -> tuple[Role, ...]:
        return tuple(role for role in self.roles.values() if role.is_user)

    def problems(self) -> Iterator[tuple[str, str]]:
        """What doesn't fit together, with the dotted key of each."""
        if chart := [(f".roles.{name}.reports_to", text) for name in self.roles for text in self._wrong_bosses(name)]:
            yield from chart
            return  # what a role lacks on a wrong chart says nothing
        shared = vocabulary().principles
        for name in self.principles.keys() & shared.keys():
            yield f".principles.{name}", "is a principle of the shared vocabulary; choose another name"
        for relation in OUTSIDE:
            if relation not in self.outsiders:
                yield ".outsiders", f'"{relation}" is missing'
        for place, occasion in enumerate(self.occasions):
            if occasion.cadence != "none":
                yield f".occasions.{place}.cadence", "no such key; an occasion has no cadence"
        if not self.user_roles:
            yield ".roles", "no role is a user; at least one role needs meetings, principles and reasons"
        for name, role in self.roles.items():
            yield from ((f".roles.{name}{key}", text) for key, text in self._problems_of(role, {**shared}))

    def _wrong_bosses(self, role: str) -> Iterator[str]:
        chain = [role]
        while boss := self.roles[chain[-1]].reports_to:
            if boss not in self.roles:
                guess = nearest(boss, self.roles)
                if chain == [role]:
                    yield f'there is no role "{boss}"' + (f'; did you mean "{guess}"?' if guess else "")
                return
            if boss in chain:
                yield f"nobody can report to themselves: {' -> '.join([*chain, boss])}"
                return
            chain.append(boss)

    def _problems_of(self, role: Role, shared: Mapping[str, Principle]) -> Iterator[tuple[str, str]]:
        reach = {"self", "peer", *OUTSIDE, *(["superior"] if role.reports_to else [])}
        reach |= {"report"} if any(other.reports_to == role.name for other in self.roles.values()) else set()
        for place, meeting in enumerate(role.meetings):
            if meeting.cadence == "none":
                yield f".meetings.{place}", '"cadence" is missing'
            if lost := [one for one in (meeting.by, *meeting.who) if one not in reach]:
                yield f".meetings.{place}", f'nobody in the role "{role.name}" has a {lost[0]} on this chart'
        principles = {*shared, *self.principles}
        for key in role.principles.keys() - principles:
            yield f".principles.{key}", f"no such principle; {_hint(nearest(key, principles), principles)}"
        for place, reason in enumerate(role.reasons):
            if reason not in self.reasons:
                yield f".reasons.{place}", f"no such reason; {_hint(nearest(reason, self.reasons), self.reasons)}"


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


# -- files -------------------------------------------------------------------------------------------------------------

Some = TypeVar("Some", bound=Table)


@cache
def vocabulary() -> Vocabulary:
    return _read(Path(__file__).parent / "vocabulary.yaml", Vocabulary)


def load_schema(path: Path) -> Schema:
    """Read and check one file."""
    schema = _read(path, Schema)
    return schema.model_copy(update={"principles": {**vocabulary().principles, **schema.principles}})


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
        other = schemas.get(schema.archetype)
        if other is not None:
            raise SettingsError(
                f'{path.name}, line 1: "{schema.archetype}" is described by {other.name} already',
                fix="change the `organisation:` of one of them",
            )
        schemas[schema.archetype] = schema
    return tuple(schemas.values())


def shipped_schemas() -> tuple[Schema, ...]:
    return load_folder(Path(__file__).parent / "organisations")


class _Lines:
    """Where the values of a YAML file stand, by their dotted keys."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._lines: dict[str, int] = {"": 1}

    def error(self, key: str, reason: str) -> SettingsError:
        """An error about the value of a key, or about the table that lacks it."""
        place = key
        while place not in self._lines:
            place = place.rpartition(".")[0]
        subject = "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in key.split(".")[1:])
        text = f"{self.file}, line {self._lines[place]}: {subject.removeprefix('.')}{': ' if subject else ''}{reason}"
        return SettingsError(text, fix="fix that line; see docs/guides/organisations.md")

    def first(self, problems: Mapping[str, str]) -> SettingsError:
        """The error about the first of several problems."""
        return self.error(*min(problems.items(), key=lambda one: (self._lines.get(one[0], inf), one[0])))

    def plain(self, node: Any, key: str = "", above: tuple[Any, ...] = ()) -> Any:
        """A node as texts, lists and tables."""
        if node.id == "scalar":
            return str(node.value)
        if any(node is other for other in above):
            raise self.error(key, "contains itself by an anchor")
        if node.id == "sequence":
            items = {str(place): (item, item) for place, item in enumerate(node.value)}
        else:
            items = {}
            for name, value in node.value:
                if name.id != "scalar":
                    raise self.error(key, "a key must be a plain word")
                if name.value in items:
                    first = items[name.value][0].start_mark.line + 1
                    raise self.error(f"{key}.{name.value}", f"appears twice; the first is in line {first}")
                items[name.value] = name, value
                self._lines[f"{key}.{name.value}"] = name.start_mark.line + 1
        found = {}
        for name, (where, value) in items.items():
            self._lines[f"{key}.{name}"] = where.start_mark.line + 1
            found[name] = self.plain(value, f"{key}.{name}", (*above, node))
        return list(found.values()) if node.id == "sequence" else found


def _read(path: Path, model: type[Some]) -> Some:
    lines = _Lines(path.name)
    try:
        # libyaml is ten times faster and comes with nearly every PyYAML.
        node = yaml.compose(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise SettingsError(f"can't read {path}: {error.strerror or error}", fix="pass a YAML file") from None
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise SettingsError(f"{path.name}, line {line}: this isn't UTF-8 text", fix="save the file as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        raise SettingsError(
            f"{path.name}, line {mark.line + 1 if mark else 1}: this isn't valid YAML: "
            f"{getattr(error, 'problem', None) or error}",
            fix="look for an unclosed bracket or quote, or a tab, in or just above that line",
        ) from None
    if node is None or node.id != "mapping":
        raise lines.error("", "the file is empty" if node is None else "must be a table of keys and values")
    values = lines.plain(node)
    try:
        found = validate(model, values, "")
    except SettingsError as error:
        raise lines.first(error.problems) from None
    assert isinstance(found, model)
    found.name = path.name
    _name_tables(found)
    if isinstance(found, Schema) and (problems := dict(found.problems())):
        raise lines.first(problems)
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
