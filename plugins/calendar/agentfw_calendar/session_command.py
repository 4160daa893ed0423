"""The sessions with a person about their own calendar, and the options that they share.

Questions and notes go to stderr; the result is the last thing printed, on stdout.

    agentfw calendar decide my.ics work.ics
    agentfw calendar decide my.ics --answers answers.txt --json
    agentfw calendar decide my.ics --policy openai --set policy.base_url=http://localhost:8000/v1

This module is imported for the commands' `--help`, so functions import what they need.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option

from .language.texts import LANGUAGES, Texts

if TYPE_CHECKING:
    from agentfw import Policy
    from agentfw.runs import Assembly

    from .deciding.answers import Person
    from .ics.sources import Source
    from .session import Session

_FILE = click.Path(path_type=Path, dir_okay=False)
_OTHER_WORLD = ("tiny",)
"""Policies that know the events of generated organisations only, and write what they assume of those into the hub."""

Command = TypeVar("Command", bound=Callable[..., Any])

language_option = click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    metavar="LANGUAGE",
    callback=lambda context, parameter, value: value or "",
    help="Language of questions and of the page: en, de, fr, es, it or pt. Default: that of the calendar.",
)
answers_option = click.option(
    "--answers",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="File of answers, one per line or as JSON; - for stdin.",
)
_CALENDARS = (
    click.option(
        "--from", "since", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE", help="First day. Default: today."
    ),
    click.option("--me", metavar="ADDRESS", default="", help="Your mail address, if the calendar doesn't name it."),
    click.option("--zone", metavar="NAME", default="", help="Your time zone, if the calendar doesn't name it."),
    click.option(
        "--people",
        type=_FILE,
        help='TOML file about you and others, with lines such as "acme.example" = "client", and under [me] '
        'travel = 30, country = "DE" and language = "de".',
    ),
    click.option("--hub", type=_FILE, help="File that keeps what is learned about you."),
    language_option,
    click.option(
        "--hours", metavar="HH:MM-HH:MM", default="09:00-17:00", show_default=True, help="Your working hours."
    ),
    json_option,
)
_READING = (
    click.option("--days", type=click.IntRange(1, 3660), default=28, show_default=True, help="Number of days."),
    *_CALENDARS[:-1],
    click.option("--policy", metavar="NAME", help="Policy that makes the proposals."),
    click.option(
        "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting, such as policy.prior=flat."
    ),
    click.option(
        "--busy",
        "busy",
        multiple=True,
        metavar="ADDRESS=FILE|URL",
        help="When somebody else is busy: their calendar or free/busy file, or caldavs://USER@.... Other times are "
        "proposed when they are free, too. Can be repeated.",
    ),
    click.option("--show-what-is-sent", is_flag=True, help="Print everything that the policy is sent, on stderr."),
    json_option,
)
_DECIDING = (
    click.option("--output", type=_FILE, help="Output file. Default: NAME.decided.ics in the calendar's directory."),
    click.option(
        "--list", "only_list", is_flag=True, help="Show conflicts and proposals on stdout; ask and change nothing."
    ),
    answers_option,
    click.option("--yes", is_flag=True, help="Accept every proposal. Nothing is learned from it."),
    click.option("--anew", is_flag=True, help="Ask again about conflicts that were decided before."),
    click.option("--quiet", is_flag=True, help="Print only the questions and the result."),
)


def reading(command: Command) -> Command:
    """Add the options that say what to read, and who proposes."""
    return _with(_READING, command)


def of_calendars(command: Command) -> Command:
    """Add the options that say whose calendars they are."""
    return _with(_CALENDARS, command)


def deciding(command: Command) -> Command:
    """Add the options of a session that decides."""
    return _with(_DECIDING, command)


def _with(options: tuple[Callable[[Command], Command], ...], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class Asked:
    """What the options say."""

    calendars: tuple[str, ...]
    since: datetime | None
    me: str
    zone: str
    people: Path | None
    hub: Path | None
    hours: str
    language: str
    out: Out
    days: int = 28
    policy: str | None = None
    assignments: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    show_what_is_sent: bool = False
    output: Path | None = None
    only_list: bool = False
    answers: Path | None = None
    yes: bool = False
    anew: bool = False
    quiet: bool = False


def ask(asked: Asked) -> None:
    """Hold a session."""
    out = asked.out
    out.quiet = asked.quiet or out.json
    from .deciding.person_file import PersonFile, data_file
    from .terminal import ShownPolicy, conclude, introduce, show_other_times

    if asked.output is not None and len(asked.calendars) > 1:
        raise UsageError("--output is one file, and there are several calendars", fix="leave out --output")
    assembly = assembled(asked.policy, asked.assignments)
    session = opened(asked)
    only_list = asked.only_list or (out.json and not (asked.answers or asked.yes or _at_terminal()))
    person = _person(asked, only_list, session)
    introduce(session, asked.policy or "", out)
    with PersonFile(asked.hub or data_file(), session.person, read_only=only_list) as known:
        sampling, window = assembly.spec.sampling.sampling(assembly.spec.seed), assembly.spec.window
        policy = proposing(assembly, asked)
        policy = ShownPolicy(policy) if asked.show_what_is_sent else policy
        try:
            with nullcontext() if _at_terminal() else out.progress("deciding"):
                asyncio.run(session.play(policy, person, known, sampling=sampling, window=window, anew=asked.anew))
        except KeyboardInterrupt:
            answered = sum(not outcome.known and outcome.kept is not None for outcome in session.outcomes)
            Out().note(f"\n{session.texts('interrupted', count=answered)}")
            raise click.exceptions.Exit(130) from None
        strategies = list(known.hub.list())
        written = [] if only_list else session.write(known)
        record = session.record()
    if out.json:
        extra = {"policy": assembly.spec.policy.name, "strategies": strategies, "hub": str(known.path)}
        out.data({**record, **extra, "listed": only_list, "outputs": [Texts.of().say(one) for one in written]})
    elif only_list:
        show_other_times(record, session.texts, out)
    else:
        conclude(record, strategies, written, session.texts, out)


def opened(asked: Asked) -> Session:
    """Read the calendars."""
    from .deciding.free_times import Hours
    from .deciding.people import read_people
    from .session import Session, Wishes

    first = asked.since.date() if asked.since is not None else None
    about, hours, language = read_people(asked.people), Hours.parse(asked.hours), asked.language
    named = [given for one in asked.calendars for given in _calendars_at(one, asked, language or about.language)]
    sources, busy = [source_of(given, asked.output) for given in named], _busy(asked.busy)
    return Session.open(sources, Wishes(asked.days, first, asked.me, asked.zone, about, hours, busy, language))


def _calendars_at(given: str, asked: Asked, language: str) -> list[str]:
    """The address itself, or the calendars of an account that the person chooses."""
    if not given.lower().startswith(("caldav://", "caldavs://")):
        return [given]
    from .deciding.person_file import data_file
    from .ics.caldav_source import CalDavSource, calendars_at, chosen_before, remember
    from .language.words import most_spoken
    from .terminal import choose

    found = calendars_at(CalDavSource(given))
    if len(found) == 1:
        return [found[0].address]
    hub = asked.hub or data_file()
    kept_in = hub.with_name(f"{hub.name}.calendars.json")
    texts = Texts.of(language or most_spoken(one.name for one in found))
    before = [one for one in found if one.address in chosen_before(kept_in, given)]
    if before:
        asked.out.note(texts("as_chosen_before", names=", ".join(one.name for one in before)))
        return [one.address for one in before]
    if not _at_terminal():
        listed = "\n       ".join(f"{one.address}   {one.name}" for one in found)
        raise UsageError(f"there are {len(found)} calendars at {given}", fix=f"pass one or several:\n       {listed}")
    chosen = [found[place].address for place in choose([one.name for one in found], texts)]
    remember(kept_in, given, chosen)
    return chosen


def source_of(given: str, output: Path | None) -> Source:
    """The calendar that a person names by a path or an address."""
    from .ics.caldav_source import CalDavSource
    from .ics.sources import AddressSource, FileSource

    scheme = given.partition("://")[0].lower() if "://" in given else ""
    if scheme in ("caldav", "caldavs"):
        if output is not None:
            raise UsageError("a CalDAV calendar is changed on its server", fix="leave out --output")
        return CalDavSource(given)
    if scheme in ("http", "https", "webcal"):
        return AddressSource(given, output)
    return FileSource(Path(given), output)


def _busy(given: tuple[str, ...]) -> dict[str, Source]:
    """Where it is said when others are busy, by address."""
    from .ics.caldav_source import CalDavBusy
    from .ics.ics_events import address_of

    found: dict[str, Source] = {}
    for one in given:
        address, _, where = one.partition("=")
        if "@" not in address or not where:
            raise UsageError(f'"{one}" says not whose calendar it is', fix="pass --busy bob@lab.example=bob.ics")
        is_server = where.lower().startswith(("caldav://", "caldavs://"))
        found[address_of(address)] = CalDavBusy(where) if is_server else source_of(where, None)
    return found


def assembled(policy: str | None, assignments: tuple[str, ...]) -> Assembly:
    """Assemble the policy as a run of the shipped spec does, with the same layers of settings."""
    if policy in _OTHER_WORLD:
        raise UsageError(
            f'the policy "{policy}" knows generated organisations only and can\'t decide about your calendar',
            fix="leave out --policy, or use a language model with --policy openai",
        )
    from agentfw import Host
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.host import runs_directory
    from agentfw.runs import SpecValues, assemble, chosen_values, parse_spec, read_spec, resolve

    def shipped(host: Host, name: str | None, file: Path | None) -> SpecValues:
        return SpecValues({}).then("spec calendar", read_spec(Path(host.find_spec("calendar").path)))

    runs = runs_directory(None)
    host = Host.load()
    given = parse_assignments(assignments)
    values = chosen_values(host, shipped, None, None, runs=runs, options={"policy": policy}, assignments=given)
    spec = resolve(parse_spec(values, "spec"), host)
    # A person's own calendar has no rewards.
    return assemble(spec.model_copy(update={"rewards": (), "trackers": (), "tools": (), "memories": ()}), host)


def proposing(assembly: Assembly, asked: Asked) -> Policy:
    """Who proposes: what is known of the person, unless they chose something else."""
    from .deciding.preferences import PersonPolicy

    is_chosen = asked.policy or any(one.startswith("policy.") for one in asked.assignments)
    return assembly.policy if is_chosen or assembly.spec.policy.name != "linear" else PersonPolicy()


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def text_of(answers: Path) -> tuple[str, str]:
    """The text of a file of answers, and what it is called."""
    if str(answers) == "-":
        return sys.stdin.read(), "stdin"
    try:
        return answers.read_text("utf-8-sig"), str(answers)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"can't read {answers}: {error}", fix="pass a text file in UTF-8") from None


def _person(asked: Asked, only_list: bool, session: Session) -> Person:
    """Who answers."""
    from .deciding.answers import AnswersGiven, Nobody, TakesProposals
    from .terminal import Lister, Terminal

    answers = asked.answers
    if (answers is not None) + asked.yes + only_list > 1:
        raise UsageError("--answers, --yes and --list can't be combined", fix="pass one of them")
    if only_list:
        return Lister(session.home, session.texts, silent=asked.out.json)
    if asked.yes:
        return TakesProposals()
    if answers is not None:
        return AnswersGiven(*text_of(answers))
    if not _at_terminal():
        return Nobody()
    return Terminal(session.home, session.texts)
