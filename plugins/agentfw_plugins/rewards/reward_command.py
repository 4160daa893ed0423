"""`agentfw reward`: fit a preference model, ask it, look into it, measure it and keep it up to date, without a run.

    agentfw reward fit likes.csv --items places.csv --profiles people.csv --out preferences
    agentfw reward score ana "Book the museum first, then lunch nearby" --model preferences
    agentfw reward explain ana --model preferences --plot ana.svg

The one rule: a command that fails leaves the model on disk as it was.

Imported when it is called: `agentfw --help` reads its name from the installed metadata alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import UsageError

if TYPE_CHECKING:
    from agentfw_rewardmodels import PreferenceModel, Progress

__all__ = ["reward"]

Command = TypeVar("Command", bound=Callable[..., Any])

_TABLE = click.Path(path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")
_model = click.option(
    "--model", type=click.Path(path_type=Path), default="preferences", show_default=True, help="The model's folder."
)
_items = click.option("--items", type=_TABLE, help="Texts of items: a table with item and text.")
_profiles = click.option(
    "--profiles", type=_TABLE, help="Profiles of users: a table with user, and any other columns, each a view."
)
_profile = click.option("--profile", help="What is known of a user without interactions.")


@click.group()
def reward() -> None:
    """Fit a preference model, ask it, and keep it up to date.

    Tables are .csv, .tsv, .jsonl or .parquet. Interactions have the columns user and item, and may have value (above 0
    is a like) and time.
    """


@reward.command()
@click.argument("interactions", type=_TABLE)
@_items
@_profiles
@click.option("--validation", type=_TABLE, help="Interactions to stop by; a share of the others where not given.")
@click.option("--out", type=click.Path(path_type=Path), default="preferences", show_default=True, help="Where to.")
@click.option("--encoder", default="", help="wordllama, hash:256 or sentence-transformers:NAME; the best installed.")
@click.option("--start", type=click.Path(path_type=Path), help="A model to begin the training from.")
@click.option("--checkpoints", type=click.Path(path_type=Path), help="A folder: killed, the same command goes on.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting, such as dimensions=32.")
@_json
def fit(
    interactions: Path,
    items: Path | None,
    profiles: Path | None,
    validation: Path | None,
    out: Path,
    encoder: str,
    start: Path | None,
    checkpoints: Path | None,
    assignments: tuple[str, ...],
    as_json: bool,
) -> None:
    """Learn from interactions what each user likes, apart from what everybody does."""
    from agentfw.settings import parse_assignments
    from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

    from .library_errors import told

    with told():
        model = PreferenceModel.fit(
            interactions,
            items=items,
            profiles=profiles,
            validation=validation,
            settings=PreferenceSettings.from_mapping(parse_assignments(assignments)),
            encoder=encoder,
            start=PreferenceModel.load(start) if start else None,
            checkpoints=checkpoints,
            progress=_progress if sys.stderr.isatty() else None,
        )
        if sys.stderr.isatty():
            click.echo(err=True)
        model.save(out)
    report = model.report()
    if as_json:
        _data({"model": str(out), **report.as_dict()})
    else:
        click.echo(f"{report.table()}\n\nwritten to {out}")


@reward.command()
@click.argument("user", required=False)
@click.argument("text", required=False)
@click.option("--file", type=click.File(encoding="utf-8"), help='Lines of {"user": ..., "text": ...}; - for stdin.')
@_profile
@_model
@_json
def score(user: str | None, text: str | None, file: Any, profile: str | None, model: Path, as_json: bool) -> None:
    """What a user thinks of an action: a reward from 0 to 1, and the two reasons that it is made of."""
    if (file is None) == (text is None) or (file is not None and (user is not None or profile is not None)):
        raise UsageError("give a user and a text, or a --file", fix='agentfw reward score ana "book the museum"')
    from .library_errors import told

    with told():
        known = _load(model)
        found = known.score_many(_pairs(file)) if file else [known.score(str(user), str(text), profile=profile)]
    if as_json:
        _data([one.as_dict() for one in found])
        return
    rows = [
        [one.user, f"{one.reward:.3f}", f"{one.interest_z:+.2f}", f"{one.conformity_z:+.2f}", _line(one.text)]
        for one in found
    ]
    _table(["user", "reward", "interest", "conformity", "action"], rows, right=(1, 2, 3))


@reward.command()
@click.argument("user", required=False)
@click.argument("text", required=False)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Also draw it, as an .svg.")
@_profile
@_model
@_json
def explain(
    user: str | None, text: str | None, plot: Path | None, profile: str | None, model: Path, as_json: bool
) -> None:
    """What the model learned: of everybody, of a user, or why it scores a text for a user as it does."""
    if plot is not None and text is not None:
        raise UsageError("the reasons for one score have no picture", fix="leave out the text, or --plot")
    if plot is not None and plot.suffix.lower() != ".svg":
        raise UsageError(f"can't draw into {plot}", fix="give the picture a name that ends in .svg")
    if profile is not None and text is None:
        raise UsageError("--profile is for the score of a text", fix="give a text, too")
    from agentfw.runs.journal import write_whole

    from .library_errors import told

    with told():
        known = _load(model)
        if text is not None:
            reasons = known.explain(str(user), text, profile=profile)
            _told(reasons.as_dict(), reasons.table(), as_json)
            return
        report = known.report() if user is None else known.report(user)
    if plot is not None:
        write_whole(plot, report.plot().encode())
    _told(report.as_dict(), report.table(), as_json)


@reward.command("eval")
@click.argument("interactions", type=_TABLE)
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="How long the list is.")
@click.option(
    "--by",
    type=click.Choice(["fused", "interest", "conformity"]),
    help="What ranks, if not as the model says.",
)
@_model
@_json
def evaluate(interactions: Path, count: int, by: Any, model: Path, as_json: bool) -> None:
    """How well it finds likes that it has not seen: recall and NDCG of a list of `count`."""
    from .library_errors import told

    with told():
        found = _load(model).evaluate(interactions, count=count, by=by)
    if as_json:
        _data(found.as_dict())
        return
    rows = [[f"recall@{found.count}", f"{found.recall:.4f}"], [f"NDCG@{found.count}", f"{found.ndcg:.4f}"]]
    _table(["figure", f"of {found.users:,} users"], rows, right=(1,))


@reward.command()
@click.argument("interactions", type=_TABLE, required=False)
@_items
@_profiles
@click.option("--out", type=click.Path(path_type=Path), help="Where to; in its own place where not given.")
@_model
@_json
def update(
    interactions: Path | None, items: Path | None, profiles: Path | None, out: Path | None, model: Path, as_json: bool
) -> None:
    """Take new interactions, items and users into a model, without training."""
    if interactions is None and items is None and profiles is None:
        raise UsageError("there is nothing to take in", fix="give interactions, --items or --profiles")
    from .library_errors import told

    out = out or model
    with told():
        before = _load(model)
        after = before.update(interactions or (), items=items, profiles=profiles)
        after.save(out)
    grown = {"users": len(after.users) - len(before.users), "items": len(after.items) - len(before.items)}
    if as_json:
        _data({"model": str(out), "users": len(after.users), "items": len(after.items), "new": grown})
    else:
        click.echo(f"{grown['users']:,} new users and {grown['items']:,} new items; written to {out}")


# What the commands share


def _load(folder: Path) -> PreferenceModel:
    from agentfw_rewardmodels import PreferenceModel

    return PreferenceModel.load(folder)


def _pairs(file: Any) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            pair = record["user"], record["text"]
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"line {number} is no action: {error!r}", fix='a line is {"user": "ana", "text": "book the museum"}'
            ) from error
        if not all(isinstance(part, str) and part.strip() for part in pair):
            raise UsageError(
                f"line {number}: user and text are texts, and not empty", fix="leave the line out, or fix it"
            )
        yield pair


def _progress(progress: Progress) -> None:
    metric = "" if progress.metric is None else f", NDCG {progress.metric:.4f}"
    text = f"{progress.stage}: epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.4f}{metric}"
    click.echo(f"\r\x1b[K{text}", nl=False, err=True)


def _told(record: Mapping[str, Any], table: str, as_json: bool) -> None:
    if as_json:
        _data(record)
    else:
        click.echo(table)


def _data(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _line(text: str) -> str:
    return " ".join(text.split())


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    widths = [max(len(row[place]) for row in [columns, *rows]) for place in range(len(columns))]
    for number, row in enumerate([columns, *rows]):
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo(click.style("  ".join(cells).rstrip(), dim=number == 0))
