"""`agentfw reward`: fit a preference model, use it, explain it, measure it and update it, without a run.

A command that fails leaves the model on disk as it was. This module is imported for `agentfw reward --help`, so each
command imports what it needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import UsageError
from agentfw.printing.out import Out, counted

from ..command_options import json_option, one_line, show
from . import translated_errors

if TYPE_CHECKING:
    from agentfw_rewardmodels import PreferenceModel, Progress

_PATH = click.Path(path_type=Path)
_model = click.option("--model", type=_PATH, default="preferences", show_default=True, help="Model directory.")
_items = click.option("--items", type=_PATH, help="Table of item texts, with the columns item and text.")
_profiles = click.option(
    "--profiles", type=_PATH, help="Table of user profiles, with the column user and any others; each is a view."
)
_profile = click.option("--profile", help="Profile text of a user without interactions.")


@click.group()
def reward() -> None:
    """Fit a preference model, use it and update it.

    Tables are .csv, .tsv, .jsonl or .parquet. Interactions have the columns user and item, and optionally value (above
    0 is a like) and time.
    """


@reward.command()
@click.argument("interactions", type=_PATH)
@_items
@_profiles
@click.option(
    "--validation",
    type=_PATH,
    help="Interactions used for early stopping. Default: a random share of the training data.",
)
@click.option("--out", "folder", type=_PATH, default="preferences", show_default=True, help="Output directory.")
@click.option(
    "--encoder",
    default="",
    help="Text encoder: wordllama, hash:256 or sentence-transformers:NAME. Default: the best one installed.",
)
@click.option("--start", type=_PATH, help="Directory of a model to start training from.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Setting, such as dimensions=32. Can be repeated."
)
@json_option
def fit(
    interactions: Path,
    items: Path | None,
    profiles: Path | None,
    validation: Path | None,
    folder: Path,
    encoder: str,
    start: Path | None,
    assignments: tuple[str, ...],
    out: Out,
) -> None:
    """Fit a model that separates what each user likes from what everybody likes."""
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

    with translated_errors(), out.progress("reading the interactions") as tell:
        model = PreferenceModel.fit(
            interactions,
            items=items,
            profiles=profiles,
            validation=validation,
            settings=PreferenceSettings.from_mapping(parse_assignments(assignments)),
            encoder=encoder,
            start=PreferenceModel.load(start) if start else None,
            progress=lambda progress: tell(_how_far(progress)),
        )
        model.save(folder)
    metric = max((epoch["metric"] for epoch in model.history if "metric" in epoch), default=None)
    if out.json:
        out.data({"model": str(folder), "facts": model.facts, "epochs": len(model.history), "metric": metric})
        return
    rows = [[name.replace("_", " "), f"{count:,}"] for name, count in model.facts.items()]
    rows += [["epochs", f"{len(model.history):,}"]]
    rows += [] if metric is None else [["NDCG@20, validation", f"{metric:.4f}"]]
    out.table(["figure", "value"], rows, right=(1,))
    out.line(f"\nwritten to {folder}")


@reward.command()
@click.argument("user", required=False)
@click.argument("text", required=False)
@click.option("--file", type=click.File(encoding="utf-8-sig"), help='Lines of {"user": ..., "text": ...}; - for stdin.')
@_profile
@_model
@json_option
def score(user: str | None, text: str | None, file: Any, profile: str | None, model: Path, out: Out) -> None:
    """Score an action for a user: a reward from 0 to 1, and its two components."""
    if (file is None) == (text is None) or (file is not None and (user is not None or profile is not None)):
        raise UsageError("pass a user and a text, or a --file", fix='agentfw reward score ana "book the museum"')
    with translated_errors(), out.progress("scoring"):
        known = _load(model)
        found = known.score_many(_pairs(file)) if file else [known.score(str(user), str(text), profile=profile)]
    if out.json:
        out.data([one.as_dict() for one in found])
        return
    rows = [
        [one.user, f"{one.reward:.3f}", f"{one.interest_z:+.2f}", f"{one.conformity_z:+.2f}", one_line(one.text)]
        for one in found
    ]
    out.table(["user", "reward", "interest", "conformity", "action"], rows, right=(1, 2, 3))


@reward.command()
@click.argument("user")
@click.argument("text")
@_profile
@_model
@json_option
def explain(user: str, text: str, profile: str | None, model: Path, out: Out) -> None:
    """Explain why the model scores TEXT for USER as it does."""
    with translated_errors():
        reasons = _load(model).explain(user, text, profile=profile)
    show(out, reasons.as_dict(), reasons.table())


@reward.command("eval")
@click.argument("interactions", type=_PATH)
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="Length of the ranked list.")
@click.option(
    "--by", type=click.Choice(["fused", "interest", "conformity"]), help="Ranking method. Default: the model's."
)
@_model
@json_option
def evaluate(interactions: Path, count: int, by: Any, model: Path, out: Out) -> None:
    """Measure recall and NDCG on held-out interactions."""
    with translated_errors(), out.progress("measuring"):
        found = _load(model).evaluate(interactions, count=count, by=by)
    if out.json:
        out.data(found.as_dict())
        return
    rows = [[f"recall@{found.count}", f"{found.recall:.4f}"], [f"NDCG@{found.count}", f"{found.ndcg:.4f}"]]
    out.table(["figure", f"of {counted(found.users, 'user')}"], rows, right=(1,))


@reward.command()
@click.argument("interactions", type=_PATH, required=False)
@_items
@_profiles
@click.option("--out", "folder", type=_PATH, help="Output directory. Default: the model is updated in place.")
@_model
@json_option
def update(
    interactions: Path | None, items: Path | None, profiles: Path | None, folder: Path | None, model: Path, out: Out
) -> None:
    """Add new interactions, items and users to a model, without training."""
    if interactions is None and items is None and profiles is None:
        raise UsageError("there is nothing to add", fix="pass INTERACTIONS, --items or --profiles")
    folder = folder or model
    with translated_errors(), out.progress("updating the model"):
        before = _load(model)
        after = before.update(interactions or (), items=items, profiles=profiles)
        after.save(folder)
    grown = {"users": len(after.users) - len(before.users), "items": len(after.items) - len(before.items)}
    told = {"model": str(folder), "users": len(after.users), "items": len(after.items), "new": grown}
    show(out, told, f"{grown['users']:,} new users and {grown['items']:,} new items; written to {folder}")


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
            wrong = f"line {number} is not an action: {error!r}"
            raise UsageError(wrong, fix='write lines such as {"user": "ana", "text": "book the museum"}') from error
        if not all(isinstance(part, str) and part.strip() for part in pair):
            raise UsageError(
                f"line {number}: user and text must be non-empty strings", fix="correct or remove the line"
            )
        yield pair


def _how_far(progress: Progress) -> str:
    metric = "" if progress.metric is None else f", NDCG {progress.metric:.4f}"
    return f"{progress.stage}: epoch {progress.epoch} of {progress.epochs}, loss {progress.loss:.4f}{metric}"
