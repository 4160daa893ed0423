"""`agentfw run calendar --ics FILE`: a session with a person about their own calendar.

The one rule: it prints what a person needs and asks on the terminal; what came of it is the last thing, on stdout.

    agentfw run calendar --ics my.ics
    agentfw run calendar --ics my.ics --answers answers.txt --json
    agentfw run calendar --ics my.ics --policy openai --set policy.base_url=http://localhost:8000/v1

Imported for its `--help`, so everything heavy is imported when it is needed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentfw.runs.assembly import Assembly

    from .answers import Person
    from .session import Session

__all__ = ["ics"]

_FILE = click.Path(path_type=Path, dir_okay=False)
_PROBLEMS = 5


@click.command("calendar")
@click.argument("environment", type=click.Choice(["calendar"]), default="calendar", metavar="[calendar]")
@click.option("--ics", "file", type=_FILE, required=True, help="The calendar. It is read and never changed.")
@click.option("--output", type=_FILE, help="Where the new calendar goes; else beside the old one, as NAME.decided.ics.")
@click.option(
    "--answers",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Answers, one a line or as JSON.",
)
@click.option("--yes", is_flag=True, help="Take every proposal.")
@click.option("--days", type=click.IntRange(1, 3660), default=28, show_default=True, help="How far ahead to look.")
@click.option("--from", "since", type=click.DateTime(["%Y-%m-%d"]), help="From which day on; else from today.")
@click.option("--policy", metavar="NAME", help="Who makes the proposals.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting, such as policy.prior=flat.")
@click.option("--me", metavar="ADDRESS", default="", help="Your mail address, where the calendar doesn't tell it.")
@click.option("--zone", metavar="NAME", default="", help="Your time zone, where the calendar doesn't tell it.")
@click.option("--people", type=_FILE, help='What people are to you: a TOML file of lines "acme.example" = "client".')
@click.option("--hub", type=_FILE, help="Where what is learned of you is kept.")
@click.option("--anew", is_flag=True, help="Ask again also about what was decided before.")
@click.option("--quiet", is_flag=True, help="Nothing but questions and the answer.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")
def ics(
    environment: str,
    file: Path,
    output: Path | None,
    answers: Path | None,
    yes: bool,
    days: int,
    since: datetime | None,
    policy: str | None,
    assignments: tuple[str, ...],
    me: str,
    zone: str,
    people: Path | None,
    hub: Path | None,
    anew: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Go through the conflicts of your own calendar.

    Each is shown with a proposal and a reason, and you say what stays. From your answers it learns what you would keep.
    What you decline is marked in a new file, in which nothing else is changed and nothing is deleted.
    """
    from .people import read_people
    from .person_file import PersonFile, data_file
    from .session import Session, Wishes, output_path

    first: date | None = since.date() if since is not None else None
    assembly = _assembled(policy, assignments)
    session = Session.open(Wishes(file, days, first, me, zone, read_people(people)))
    target = output_path(file, output)
    asked = _person(answers, yes, session)
    tell = not quiet and not as_json
    if tell:
        _introduce(session, assembly)
    with PersonFile(hub or data_file(), session.person) as known:
        sampling, window = assembly.spec.sampling.sampling(assembly.spec.seed), assembly.spec.window
        try:
            asyncio.run(session.play(assembly.policy, asked, known, sampling=sampling, window=window, anew=anew))
        except KeyboardInterrupt:
            answered = sum(not outcome.known and outcome.kept is not None for outcome in session.outcomes)
            click.echo(f"\ninterrupted; {answered} answers are kept: run it again to go on", err=True)
            raise click.exceptions.Exit(130) from None
        strategies = list(known.hub.list())
        kept_in = known.path
    record = session.record()
    written = target if record["declined"] else None
    if written is not None:
        session.write(written)
    if as_json:
        extra = {"policy": assembly.spec.policy.name, "strategies": strategies, "hub": str(kept_in)}
        click.echo(
            json.dumps({**record, **extra, "output": str(written) if written else None}, indent=2, ensure_ascii=False)
        )
    else:
        _conclude(record, strategies, written, quiet)


def _assembled(policy: str | None, assignments: tuple[str, ...]) -> Assembly:
    """The policy as a run of the shipped spec would make it."""
    from agentfw.host import Host, HostOptions
    from agentfw.host.project import find_project
    from agentfw.runs.assembly import assemble, resolve
    from agentfw.runs.spec import apply_assignments, parse_spec, read_spec
    from agentfw.settings import parse_assignments

    host = Host.load(HostOptions.from_environment(project=find_project()))
    values = read_spec(Path(host.find_spec("calendar").path))
    if policy is not None:
        values["policy"] = policy
    values = apply_assignments(values, parse_assignments(assignments))
    spec, _ = resolve(parse_spec(values, "spec"), host)
    # Nobody pays a person's own calendar out in rewards.
    return assemble(spec.model_copy(update={"rewards": (), "trackers": (), "tools": (), "memories": ()}), host)


def _person(answers: Path | None, yes: bool, session: Session) -> Person:
    """Who answers."""
    from agentfw.errors import UsageError

    from .answers import AnswersGiven, Nobody, TakesProposals

    if answers is not None and yes:
        raise UsageError("--answers and --yes don't go together", fix="leave one out")
    if yes:
        return TakesProposals()
    if answers is not None:
        if str(answers) == "-":
            return AnswersGiven(sys.stdin.read(), "stdin")
        try:
            return AnswersGiven(answers.read_text("utf-8"), str(answers))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"can't read {answers}: {error}", fix="give a text file in UTF-8") from None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return Nobody()
    from .terminal import Terminal

    return Terminal(session.home)


def _introduce(session: Session, assembly: Assembly) -> None:
    """What was found, before the first question."""
    from .ics_events import tidy

    record = session.record()
    to_come = session.agenda.remaining(200)
    who = record["person"] if session.people.owner else "owner unknown (--me says)"
    facts = [
        record["file"],
        who,
        record["zone"],
        f"{record['from']} to {record['until']}",
        f"policy {assembly.spec.policy.name}",
    ]
    click.secho("   ".join(facts), err=True, bold=sys.stderr.isatty() or None)
    count = f"{record['events']:,} events, {len(session.found):,} dates in these days"
    conflicts = f"{to_come} conflict{'s' if to_come != 1 else ''}" if to_come else "no conflicts"
    click.echo(f"{count}, {conflicts}", err=True)
    if session.problems:
        click.echo(f"{len(session.problems)} of what is in the file can't be used, and stays as it is:", err=True)
        for problem in session.problems[:_PROBLEMS]:
            where = f"line {problem.line}" if problem.line else "everywhere"
            what = f'"{problem.what}": ' if problem.what else ""
            click.echo(f"  {where}: {tidy(f'{what}{problem.why}')}", err=True)
        if len(session.problems) > _PROBLEMS:
            click.echo("  ... (--json lists all)", err=True)
    click.echo(err=True)


def _conclude(record: dict[str, Any], strategies: list[str], written: Path | None, quiet: bool) -> None:
    """What came of the session."""
    conflicts = record["conflicts"]
    asked = [one for one in conflicts if not one["decided_before"]]
    if not conflicts:
        click.echo("nothing is in anything's way" if not record["stopped"] else "nothing was decided")
        return
    proposed = sum(one["kept"] == one["proposed"] != "" for one in asked)
    count = f"{len(asked)} conflict{'s' if len(asked) != 1 else ''}"
    parts = [f"{count}: {proposed} as proposed" if asked else "no new conflict"]
    if otherwise := sum(bool(one["kept"]) and one["kept"] != one["proposed"] for one in asked):
        parts.append(f"{otherwise} otherwise")
    if left := sum(not one["kept"] for one in asked):
        parts.append(f"{left} left")
    if known := len(conflicts) - len(asked):
        parts.append(f"{known} more as you decided before")
    click.echo(f"{', '.join(parts)}   {record['declined']} event{'s' if record['declined'] != 1 else ''} declined")
    if strategies:
        click.echo(f"learned   {', '.join(strategies)}")
    if written is None:
        click.echo("no file is written: nothing is declined")
    else:
        click.echo(f"written   {written}   ({record['file']} is unchanged)")
    if record["stopped"] and not quiet:
        click.echo("there is more: run it again to go on", err=True)
