"""`agentfw data`: make the data sets of the built-in benchmarks, and check organisations of your own.

    agentfw data make calendar --out data --users 40 --seed 7
    agentfw data check calendar my_organisations

The one rule: this module is imported for `agentfw data --help`, so everything heavy is imported by the command that
needs it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

__all__ = ["data"]


@click.group()
def data() -> None:
    """Make and check the data sets of the benchmarks."""


@data.group()
def make() -> None:
    """Write a data set to disk."""


@make.command("calendar")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The folder to write to.")
@click.option("--users", type=click.IntRange(3, 100_000), default=40, show_default=True, help="How many users.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Where every choice comes from.")
@click.option(
    "--organisations", type=click.Path(), default="", help="A folder with YAML files, instead of the shipped."
)
@click.option("--ics", multiple=True, metavar="USER", help="Also this user's year as .ics; `all` for everybody's.")
@click.option(
    "--parquet/--no-parquet", default=None, help="Parquet beside JSONL. Where neither is said: if pyarrow is there."
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON, and nothing else.")
def make_calendar(
    out: Path, users: int, seed: int, organisations: str, ics: tuple[str, ...], parquet: bool | None, as_json: bool
) -> None:
    """Users, their regular year and their conflicts, split by organisation."""
    from importlib.util import find_spec

    from .data_export import make_data

    if parquet is None:
        parquet = find_spec("pyarrow") is not None
        if not parquet:
            click.echo('JSONL only; for Parquet: pip install "agentfw[calendar]"', err=True)
    done = 0

    def progress(name: str) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            click.echo(f"\r{done} of {users} users", nl=done == users, err=True)

    manifest = make_data(
        out,
        users=users,
        seed=seed,
        organisations=organisations,
        ics=ics,
        parquet=parquet,
        jobs=min(os.cpu_count() or 1, max(1, users // 8)),
        progress=progress,
    )
    if as_json:
        click.echo(json.dumps(manifest, indent=2, ensure_ascii=False))
        return
    rejected = ", ".join(f"{point} {count}" for point, count in manifest["rejected"].items() if count) or "none"
    click.echo(f"{'split':<12}{'organisations':>14}{'users':>7}{'rounds':>8}")
    for split, count in manifest["users"].items():
        rounds = manifest["files"][f"{split}/rounds.jsonl"]["rows"]
        click.echo(f"{split:<12}{manifest['organisations'][split]:>14}{count:>7}{rounds:>8}")
    click.echo(f"rejected by verification, and drawn anew: {rejected}")
    click.echo(f"written to {out} (MANIFEST.json says what)")


@data.group()
def check() -> None:
    """Check what a data set would be made from."""


@check.command("calendar")
@click.argument("organisations", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, and nothing else.")
def check_calendar(organisations: Path, as_json: bool) -> None:
    """Read YAML files of organisations, and make and verify a year of every role in them."""
    from .dataset import Dataset
    from .schema import load_folder, load_schema

    schemas = load_folder(organisations) if organisations.is_dir() else (load_schema(organisations),)
    answer = []
    for schema in schemas:
        count = len(schema.user_roles)
        dataset = Dataset(7, (schema,), count, {"train": 1, "validation": 0, "test": 0})
        rounds = rejected = 0
        for name in dataset.users("train"):
            calendar = dataset.calendar(dataset.user(name))
            rounds, rejected = rounds + len(calendar.rounds), rejected + sum(calendar.rejected.values())
        answer.append(
            {
                "file": schema.file,
                "organisation": schema.archetype,
                "roles": count,
                "rounds": rounds,
                "rejected": rejected,
            }
        )
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for row in answer:
        click.echo(
            f"{row['file']}: {row['organisation']}, {row['roles']} roles; {row['rounds']} rounds made and verified, "
            f"{row['rejected']} rejected on the way"
        )
