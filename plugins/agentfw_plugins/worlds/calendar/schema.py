"""An organisation's schema, read from YAML: its roles, their meetings M(r), principles P(r) and conflict reasons C(r).

A schema that loads can be generated. What would fail later (an unknown principle, a pattern that needs reports where
nobody has any, more meetings than fit into a week) is refused here, with file, line and reason.

    schema = load_schema(Path("bakery.yaml"))
    schema.roles["baker"].principles      # {"due_today": 4, "vendor": -2, ...}

A principle is what a user may care about, as conditions on the visible tags of an event. It depends on the tags alone,
so everything that decides a round can be read from its lines.

    >>> due_today = Principle("due_today", "due today", {"due": ("today",)}, (), ("it's due",), ("so what",))
    >>> due_today.triggers({"due": "today"}), due_today.triggers({"due": "week"})
    (True, False)

In YAML, `when` is a table of conditions that must all hold: `due: today`, `hold: [fixed, must]`, `who: client`
(somebody like that comes), `size: 2`, `minutes: {at_least: 90}`. Keys are those of the line, with `minutes` for `min`.

docs/guides/organisations.md shows the format. The shipped schemas in `organisations/` are longer examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from string import Formatter

from agentfw.errors import SettingsError, nearest

from .event_attributes import CHOICES, OUTSIDE, RELATIONS
from .yaml_lines import Sheet, read_file

_NUMBERS = {"size": ("size", 1, 60), "minutes": ("min", 5, 480)}


@dataclass(frozen=True, slots=True)
class Principle:
    """One thing that may matter to a user, and how people express it."""

    name: str
    label: str
    values: Mapping[str, tuple[str, ...]]
    """Tags and their allowed values; for `who`, one of these relations must attend."""
    bounds: tuple[tuple[str, int, int], ...]
    """Numeric tags with their minimum and maximum."""
    praise: tuple[str, ...]
    complaint: tuple[str, ...]

    def triggers(self, tags: Mapping[str, str]) -> bool:
        for tag, wanted in self.values.items():
            if tag == "who":
                if not any(relation in wanted for relation in tags["who"].split(",")):
                    return False
            elif tags[tag] not in wanted:
                return False
        return all(least <= int(tags[tag]) <= most for tag, least, most in self.bounds)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The vocabulary that all organisations share."""

    principles: Mapping[str, Principle]
    first_names: tuple[str, ...]
    last_names: tuple[str, ...]


@cache
def vocabulary() -> Vocabulary:
    table = read_file(Path(__file__).parent / "vocabulary.yaml").table(("principles", "first_names", "last_names"))
    return Vocabulary(
        read_principles(table["principles"]), table["first_names"].texts(least=2), table["last_names"].texts(least=2)
    )


def read_principles(sheet: Sheet) -> dict[str, Principle]:
    return {name: _principle(name, value) for name, value in sheet.entries()}


def _principle(name: str, sheet: Sheet) -> Principle:
    table = sheet.table(("label", "when", "for", "against"))
    values: dict[str, tuple[str, ...]] = {}
    bounds: list[tuple[str, int, int]] = []
    conditions = table["when"].entries()
    if not conditions:
        raise table["when"].error("must have at least one condition; it would hold for every event")
    for key, value in conditions:
        if key in _NUMBERS:
            bounds.append(_bound(key, value))
        elif key == "who":
            values["who"] = _some(value, (*RELATIONS, "nobody"))
        elif key in CHOICES:
            values[key] = _some(value, CHOICES[key])
        else:
            known = ", ".join((*_NUMBERS, "who", *CHOICES))
            raise value.error(f"events have no such attribute; there is: {known}")
    return Principle(
        name,
        table["label"].text(longest=30),
        values,
        tuple(bounds),
        table["for"].texts(longest=120),
        table["against"].texts(longest=120),
    )


def _some(sheet: Sheet, choices: Sequence[str]) -> tuple[str, ...]:
    """One value or a list of them."""
    if sheet.is_list:
        return tuple(item.one_of(choices) for item in sheet.items(least=1))
    return (sheet.one_of(choices),)


def _bound(key: str, sheet: Sheet) -> tuple[str, int, int]:
    tag, low, high = _NUMBERS[key]
    if not sheet.is_table:
        value = sheet.integer(low, high)
        return tag, value, value
    table = sheet.table(optional=("at_least", "at_most"))
    if not table:
        raise sheet.error("needs at_least, at_most or both")
    least = table["at_least"].integer(low, high) if "at_least" in table else low
    most = table["at_most"].integer(low, high) if "at_most" in table else high
    if least > most:
        raise sheet.error(f"no event can have at least {least} and at most {most}")
    return tag, least, most


ARCHETYPES = Path(__file__).parent / "organisations"
CADENCES = {"weekly": 1, "biweekly": 2, "monthly": 4}
"""Interval in weeks."""
SLOTS = ("project", "person", *RELATIONS)
SOFT = ("mornings", "afternoons", "no_back_to_back")
_SETTABLE = ("due", "urgency", "place", "notice", "hold")
_WORK = tuple(topic for topic in CHOICES["topic"] if topic not in ("social", "personal"))
_FULLEST_WEEK = 30 * 60
"""Maximum minutes of meetings in a role's fullest week; more can't be placed without overlaps."""
_MOST_PEOPLE = 30


@dataclass(frozen=True, slots=True)
class Meeting:
    """A template of events: a regular meeting if it has a cadence, else an occasion that may come up."""

    name: str
    titles: tuple[str, ...]
    topic: str
    cadence: str
    """weekly, biweekly or monthly; `none` for an occasion."""
    minutes: Mapping[int, float]
    """Relative frequency of each duration."""
    by: str
    who: Mapping[str, tuple[int, int]]
    """Number of attendees by relation, besides the organiser."""
    place: Mapping[str, float]
    hold: str
    soft: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """A conflict reason: an operator that turns an event into a plausible competitor of another."""

    name: str
    sets: Mapping[str, str]
    adds: Mapping[str, tuple[int, int]]
    only: str
    """A relation of which one person attends, and nobody else. Empty if the attendees stay."""
    longer: int
    notes: tuple[str, ...]
    topics: tuple[str, ...]
    """Topics of the events that it fits: no birthday cake is due today."""


@dataclass(frozen=True, slots=True)
class Role:
    """One position."""

    name: str
    title: str
    people: tuple[int, int]
    reports_to: str
    is_user: bool
    accepts: float
    """Probability that the regular meeting is kept."""
    meetings: tuple[Meeting, ...]
    principles: Mapping[str, int]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outsiders:
    """Contacts from outside, of one relation."""

    title: str
    firms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one archetype of organisations."""

    file: str
    archetype: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    projects: tuple[str, ...]
    rooms: tuple[str, ...]
    sites: tuple[str, ...]
    outsiders: Mapping[str, Outsiders]
    reasons: Mapping[str, Reason]
    occasions: tuple[Meeting, ...]
    roles: Mapping[str, Role]
    principles: Mapping[str, Principle]
    """The shared vocabulary and the principles of the file."""

    @property
    def user_roles(self) -> tuple[Role, ...]:
        return tuple(role for role in self.roles.values() if role.is_user)


def load_schema(path: Path) -> Schema:
    """Read and check one file."""
    sheet = read_file(path)
    keys = ("organisation", "names", "projects", "rooms", "sites", "outsiders", "reasons", "occasions", "roles")
    table = sheet.table(keys, ("principles",))
    names = table["names"].table(("first", "second"))
    principles = dict(vocabulary().principles)
    if "principles" in table:
        for (name, principle), (_, value) in zip(
            read_principles(table["principles"]).items(), table["principles"].entries(), strict=True
        ):
            if name in principles:
                raise value.error("is a principle of the shared vocabulary; choose another name")
            principles[name] = principle
    outsiders = _outsiders(table["outsiders"])
    reasons = {name: _reason(name, value) for name, value in table["reasons"].entries()}
    chart = _chart(table["roles"])
    occasions = tuple(
        _meeting(item, "occasion", index, outsiders) for index, item in enumerate(table["occasions"].items(least=6))
    )
    roles = {
        name: _role(name, value, chart, principles, reasons, outsiders) for name, value in table["roles"].entries()
    }
    if not any(role.is_user for role in roles.values()):
        raise table["roles"].error("no role is a user; at least one role needs meetings, principles and reasons")
    return Schema(
        path.name,
        table["organisation"].text(longest=40),
        names["first"].texts(least=2),
        names["second"].texts(),
        table["projects"].texts(least=2),
        table["rooms"].texts(least=2),
        table["sites"].texts(least=1),
        outsiders,
        reasons,
        occasions,
        roles,
        principles,
    )


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
                f'{path.name}, line 1: "{schema.archetype}" is described by {other.file} already',
                fix="change the `organisation:` of one of them",
            )
        schemas[schema.archetype] = schema
    return tuple(schemas.values())


def shipped_schemas() -> tuple[Schema, ...]:
    return load_folder(ARCHETYPES)


# -- the parts ---------------------------------------------------------------------------------------------------------


def _outsiders(sheet: Sheet) -> dict[str, Outsiders]:
    table = sheet.table(OUTSIDE)
    found = {}
    for name in OUTSIDE:
        inner = table[name].table(("as", "firms"))
        found[name] = Outsiders(inner["as"].text(longest=30), inner["firms"].texts())
    return found


def _reason(name: str, sheet: Sheet) -> Reason:
    table = sheet.table(("notes",), ("set", "add", "only", "longer", "topics"))
    if not {"set", "add", "only", "longer"} & set(table):
        raise sheet.error("has no effect; add set, add, only or longer")
    sets: dict[str, str] = {}
    if "set" in table:
        for key, value in table["set"].table(optional=_SETTABLE).items():
            sets[key] = value.one_of(CHOICES[key])
    adds = _people(table["add"]) if "add" in table else {}
    only = table["only"].one_of(RELATIONS) if "only" in table else ""
    if only and adds:
        raise table["only"].error("can't be combined with add; it means that nobody else comes")
    longer = table["longer"].integer(15, 120) if "longer" in table else 0
    notes = table["notes"].texts()
    allowed = {*adds, only} - {""}
    for item in table["notes"].items():
        _check_slots(item, {"project", *allowed})
    topics = (
        tuple(item.one_of(CHOICES["topic"]) for item in table["topics"].items(least=1)) if "topics" in table else _WORK
    )
    if "personal" in topics and (adds or only):
        raise table["topics"].error("nobody else comes to a personal appointment, so add and only can't apply to it")
    return Reason(name, sets, adds, only, longer, notes, topics)


def _people(sheet: Sheet) -> dict[str, tuple[int, int]]:
    return {name: value.span(0, 20) for name, value in sheet.table(optional=RELATIONS).items()}


def _chart(sheet: Sheet) -> dict[str, str]:
    """The role that each role reports to; empty for the top. A cycle or an unknown boss is refused."""
    above: dict[str, str] = {}
    places: dict[str, Sheet] = {}
    for name, value in sheet.entries():
        inner = dict(value.entries())
        above[name] = inner["reports_to"].text() if "reports_to" in inner else ""
        places[name] = inner.get("reports_to", value)
    for name, boss in above.items():
        if boss and boss not in above:
            guess = nearest(boss, above)
            hint = f'; did you mean "{guess}"?' if guess else ""
            raise places[name].error(f'there is no role "{boss}"{hint}')
        seen = [name]
        while boss:
            if boss in seen:
                raise places[name].error(f"nobody can report to themselves: {' -> '.join([*seen, boss])}")
            seen.append(boss)
            boss = above[boss]
    return above


def _role(
    name: str,
    sheet: Sheet,
    chart: Mapping[str, str],
    principles: Mapping[str, Principle],
    reasons: Mapping[str, Reason],
    outsiders: Mapping[str, Outsiders],
) -> Role:
    optional = ("reports_to", "user", "accepts", "meetings", "principles", "reasons")
    table = sheet.table(("title", "people"), optional)
    title, people = table["title"].text(longest=40), table["people"].span(1, _MOST_PEOPLE)
    is_user = "user" not in table or table["user"].one_of(("true", "false")) == "true"
    if not is_user:
        for key in ("accepts", "meetings", "principles", "reasons"):
            if key in table:
                raise table[key].error("a role with user: false has no calendar of its own; remove this")
        return Role(name, title, people, chart[name], False, 0.0, (), {}, ())
    for key in ("meetings", "principles", "reasons"):
        if key not in table:
            raise sheet.error(f'"{key}" is missing (or set user: false)')
    accepts = table["accepts"].number(0.05, 0.95) if "accepts" in table else 0.35
    # The relations that this role has on the chart.
    found = {*OUTSIDE, "peer"}
    if chart[name]:
        found.add("superior")
    if name in chart.values():
        found.add("report")
    reach = found
    meetings = tuple(
        _meeting(item, name, index, outsiders, reach) for index, item in enumerate(table["meetings"].items(least=3))
    )
    _check_load(table["meetings"], meetings)
    return Role(
        name,
        title,
        people,
        chart[name],
        True,
        accepts,
        meetings,
        _weights(table["principles"], principles),
        _known_reasons(table["reasons"], reasons),
    )


def _weights(sheet: Sheet, principles: Mapping[str, Principle]) -> dict[str, int]:
    weights: dict[str, int] = {}
    for key, value in sheet.entries():
        if key not in principles:
            guess = nearest(key, principles)
            hint = f'did you mean "{guess}"?' if guess else f"there is: {', '.join(principles)}"
            raise value.error(f"no such principle; {hint}")
        weights[key] = value.integer(-6, 6)
        if weights[key] == 0:
            raise value.error("a weight of 0 has no effect; remove the principle")
    if len(weights) < 4:
        raise sheet.error(f"must have at least 4 principles (it has {len(weights)})")
    if sum(weight > 0 for weight in weights.values()) < 2:
        raise sheet.error("at least two weights must be above 0")
    return weights


def _known_reasons(sheet: Sheet, reasons: Mapping[str, Reason]) -> tuple[str, ...]:
    found = sheet.texts(least=3)
    for item, name in zip(sheet.items(), found, strict=True):
        if name not in reasons:
            guess = nearest(name, reasons)
            hint = f'did you mean "{guess}"?' if guess else f"there is: {', '.join(reasons)}"
            raise item.error(f"no such reason; {hint}")
    return found


def _meeting(
    sheet: Sheet, owner: str, index: int, outsiders: Mapping[str, Outsiders], reach: set[str] | None = None
) -> Meeting:
    """Read one template. `reach` is given for regular meetings, which must be possible for the role."""
    regular = reach is not None
    required = ("titles", "topic", "minutes", "by", "who", "place")
    table = sheet.table((*required, "cadence") if regular else required, ("hold", "soft"))
    by = table["by"].one_of(CHOICES["by"])
    who = _people(table["who"])
    if reach is not None:
        for relation, value in [(by, table["by"]), *((name, table["who"]) for name in who)]:
            if relation != "self" and relation not in reach:
                raise value.error(f'nobody in the role "{owner}" has a {relation} on this chart')
    for item in table["titles"].items():
        given = {by, *(name for name, (least, _) in who.items() if least)} - {"self"}
        _check_slots(item, {"project", *given} | ({"person"} if given else set()))
    minutes = {_minutes(value, key): value.number(0, 1000) for key, value in table["minutes"].entries()}
    place = {name: value.number(0, 1000) for name, value in table["place"].table(optional=CHOICES["place"]).items()}
    for key, shares in (("minutes", minutes), ("place", place)):
        if not sum(shares.values()) > 0:
            raise table[key].error("must have at least one share above 0")
    topic = table["topic"].one_of(CHOICES["topic"])
    if topic == "personal" and (by != "self" or who):
        raise table["topic"].error("a personal appointment has by: self and who: {}")
    if topic != "personal" and by == "self" and not any(least for least, _ in who.values()):
        raise table["who"].error("somebody must come; only a personal appointment is for the user alone")
    return Meeting(
        f"{owner}.{index}",
        table["titles"].texts(longest=50),
        topic,
        table["cadence"].one_of(CADENCES) if regular else "none",
        minutes,
        by,
        who,
        place,
        table["hold"].one_of(CHOICES["hold"]) if "hold" in table else "none",
        tuple(item.one_of(SOFT) for item in table["soft"].items()) if "soft" in table else (),
    )


def _minutes(sheet: Sheet, key: str) -> int:
    if not key.isdigit() or not 15 <= int(key) <= 240 or int(key) % 15:
        raise sheet.error(f'a duration is a multiple of 15 minutes from 15 to 240 (got "{key}")')
    return int(key)


def _check_slots(sheet: Sheet, allowed: set[str]) -> None:
    """Check that a title only names what the event always has."""
    text = sheet.text()
    try:
        slots = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise sheet.error(f'"{text}" has a stray brace: {error}') from None
    for slot in slots:
        if slot not in allowed:
            hint = (
                f"there is: {', '.join(sorted(allowed))}"
                if slot in SLOTS
                else "only names of relations can stand there"
            )
            raise sheet.error(f"{{{slot}}} can't be filled in here; {hint}")
    if "|" in text or "\n" in text:
        raise sheet.error('must be one line without "|", which separates title and tags')


def _check_load(sheet: Sheet, meetings: tuple[Meeting, ...]) -> None:
    """Check the fullest week, with everything that can fall into it at its longest."""
    total = sum(max(length for length, share in meeting.minutes.items() if share > 0) for meeting in meetings)
    if total > _FULLEST_WEEK:
        raise sheet.error(
            f"{total / 60:g} hours of meetings can fall into one week; more than {_FULLEST_WEEK / 60:g} leave no room"
        )
    if sum(meeting.cadence == "weekly" for meeting in meetings) < 2:
        raise sheet.error("at least two meetings must be weekly; two conflicts a week need something to fall on")
