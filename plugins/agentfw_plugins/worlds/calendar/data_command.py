"""`agentfw data make calendar` and `agentfw data check calendar`: the benchmark on disk, and organisations of your own.

    agentfw data make calendar --out data --users 40 --seed 7
    agentfw data check calendar my_organisations

This module is imported for `agentfw data make --help`, so each command imports what it needs.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from agentfw.printing.out import Out

from ...command_options import json_option


@click.command("calendar")
@click.option(
    "--out", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Output directory."
)
@click.option("--users", type=click.IntRange(3, 100_000), default=40, show_default=True, help="Number of users.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Random seed.")
@click.option(
    "--organisations", type=click.Path(), default="", help="Directory of YAML files. Default: those that ship."
)
@click.option(
    "--ics", multiple=True, metavar="USER", help="Also write this user's year as .ics, or `all`. Can be repeated."
)
@click.option(
    "--parquet/--no-parquet", default=None, help="Also write Parquet files. Default: if pyarrow is installed."
)
@json_option
def make_calendar(
    folder: Path, users: int, seed: int, organisations: str, ics: tuple[str, ...], parquet: bool | None, out: Out
) -> None:
    """Write users, their regular year and their conflicts, split by organisation."""
    from importlib.util import find_spec

    from agentfw.errors import MissingExtraError

    from .data_export import make_data

    if parquet is None:
        parquet = find_spec("pyarrow") is not None
        if not parquet:
            out.note(f"JSONL only; for Parquet: {MissingExtraError('Parquet', 'parquet').fix}")
    done = 0
    with out.progress(f"0 of {users} users") as tell:

        def progress(name: str) -> None:
            nonlocal done
            done += 1
            tell(f"{done} of {users} users")

        manifest = make_data(
            folder,
            users=users,
            seed=seed,
            organisations=organisations,
            ics=ics,
            parquet=parquet,
            jobs=min(os.cpu_count() or 1, max(1, users // 8)),
            progress=progress,
        )
    if out.json:
        out.data(manifest)
        return
    rejected = ", ".join(f"{point} {count}" for point, count in manifest["rejected"].items() if count) or "none"
    rows = []
    for split, count in manifest["users"].items():
        rounds = manifest["files"][f"{split}/rounds.jsonl"]["rows"]
        rows.append([split, str(manifest["organisations"][split]), str(count), str(rounds)])
    out.table(["split", "organisations", "users", "rounds"], rows, right=(1, 2, 3))
    out.line(f"rejected by verification and drawn again: {rejected}")
    out.line(f"written to {folder}; MANIFEST.json lists the files")


@click.command("calendar")
@click.argument("organisations", type=click.Path(exists=True, path_type=Path))
@json_option
def check_calendar(organisations: Path, out: Out) -> None:
    """Read YAML files of organisations, and generate and verify a year for each role in them."""
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
                "file": schema.name,
                "organisation": schema.archetype,
                "roles": count,
                "rounds": rounds,
                "rejected": rejected,
            }
        )
    if out.json:
        out.data(answer)
        return
    for row in answer:
        out.line(
            f"{row['file']}: {row['organisation']}, {row['roles']} roles; {row['rounds']} rounds made and verified, "
            f"{row['rejected']} rejected on the way"
        )
