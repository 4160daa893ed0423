"""`agentfw data make calendar` and `agentfw data check calendar`: the benchmark on disk, and organisations of your own.

    agentfw data make calendar --out data --users 40 --seed 7
    agentfw data check calendar my_organisations

    DIR/MANIFEST.json
    DIR/train/users.jsonl  events.jsonl  rounds.jsonl
    DIR/validation/...  DIR/test/...

`users.jsonl` holds the hidden weights and `rounds.jsonl` the true answers: it is data to train and to judge with, not
to be shown to an agent. The same seed gives the same bytes. Each file is written under a temporary name and renamed.
MANIFEST.json is written last; it lists the rows and the sha256 of each file, and the rejected rounds by reason.

This module is imported for `agentfw data make --help`, so each command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.printing.out import Out

from ...command_options import json_option

if TYPE_CHECKING:
    from .dataset import Calendar
    from .event_attributes import Event

_USERS_EACH = 5


def organisations_for(users: int) -> tuple[int, dict[str, int]]:
    """The number of users per organisation and of organisations per split.

    From 20 users on: five users each, two organisations for test and a fifth of the others for validation. With fewer
    users the organisations are smaller, so that every split still has one.

    >>> organisations_for(40)
    (5, {'train': 5, 'validation': 1, 'test': 2})
    """
    each = _USERS_EACH if users >= 4 * _USERS_EACH else max(1, users // 4)
    organisations = -(-users // each)
    test = 2 if organisations >= 4 else 1
    validation = max(1, (organisations - test) // 5)
    return each, {"train": organisations - test - validation, "validation": validation, "test": test}


@click.command("calendar")
@click.option(
    "--out", "folder", type=click.Path(path_type=Path, file_okay=False), required=True, help="Output directory."
)
@click.option("--users", type=click.IntRange(3, 100_000), default=40, show_default=True, help="Number of users.")
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Random seed.")
@click.option(
    "--organisations", type=click.Path(), default="", help="Directory of YAML files. Default: those that ship."
)
@json_option
def make_calendar(folder: Path, users: int, seed: int, organisations: str, out: Out) -> None:
    """Write users, their regular year and their conflicts, split by organisation."""
    import json
    from collections import Counter
    from hashlib import sha256

    from agentfw.runs import write_whole

    from .dataset import SPLITS, Dataset, schemas_of
    from .round_maker import POINTS

    each, counts = organisations_for(users)
    dataset = Dataset(seed, schemas_of(organisations), each, counts)
    names = {split: dataset.users(split) for split in SPLITS}
    # Organisations are complete, so users in excess are left out of training.
    names["train"] = names["train"][: users - len(names["validation"]) - len(names["test"])]
    rejected: Counter[str] = Counter()
    files: dict[str, dict[str, Any]] = {}
    with out.progress(f"0 of {users} users") as tell:
        done = 0
        for split in SPLITS:
            rows: dict[str, list[dict[str, Any]]] = {"users": [], "events": [], "rounds": []}
            for name in names[split]:
                calendar = dataset.calendar(dataset.user(name))
                rejected += calendar.rejected
                rows["users"].append({"user": name, "split": split, **_user_row(calendar)})
                rows["events"] += [_event_row(name, event) for event in calendar.events]
                rows["rounds"] += _round_rows(calendar)
                done += 1
                tell(f"{done} of {users} users")
            for kind, some in rows.items():
                data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in some).encode()
                path = folder / split / f"{kind}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, data)
                files[f"{split}/{kind}.jsonl"] = {"rows": len(some), "sha256": sha256(data).hexdigest()}
    manifest = {
        "data": "calendar",
        "seed": seed,
        "users": {split: len(some) for split, some in names.items()},
        "organisations": counts,
        "archetypes": [schema.archetype for schema in dataset.schemas],
        "rounds": sum(files[f"{split}/rounds.jsonl"]["rows"] for split in SPLITS),
        "rejected": {point: rejected[point] for point in POINTS},
        "files": files,
    }
    write_whole(folder / "MANIFEST.json", json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    if out.json:
        out.data(manifest)
        return
    lines = [
        [split, str(counts[split]), str(len(names[split])), str(files[f"{split}/rounds.jsonl"]["rows"])]
        for split in SPLITS
    ]
    out.table(["split", "organisations", "users", "rounds"], lines, right=(1, 2, 3))
    told = ", ".join(f"{point} {rejected[point]}" for point in POINTS if rejected[point]) or "none"
    out.line(f"rejected by verification and drawn again: {told}")
    out.line(f"written to {folder}; MANIFEST.json lists the files")


def _user_row(calendar: Calendar) -> dict[str, Any]:
    user, company = calendar.user, calendar.user.organisation
    return {
        "name": user.name,
        "role": user.role.name,
        "title": user.role.title,
        "organisation": company.name,
        "archetype": company.schema.archetype,
        "weights": dict(user.weights),
        "chart": {person.id: [person.name, person.role, person.boss] for person in company.people.values()},
        "contacts": {person.id: [person.name, person.role, person.firm] for person in company.contacts.values()},
        "rejected": sum(calendar.rejected.values()),
    }


def _event_row(user: str, event: Event) -> dict[str, Any]:
    from dataclasses import asdict

    from .regular_year import date_of

    return {"user": user, "date": date_of(event.day).isoformat(), **asdict(event)}


def _round_rows(calendar: Calendar) -> list[dict[str, Any]]:
    from .event_attributes import event_line
    from .regular_year import date_of

    return [
        {
            "user": calendar.user.id,
            "round": shown.number,
            "week": shown.week + 1,
            "date": date_of(shown.day).isoformat(),
            "case": shown.case,
            "answer": shown.answer,
            "anchor": shown.letters[shown.anchor],
            "margin": shown.margin,
            "lines": [
                event_line(letter, event.shown, tags)
                for letter, event, tags in zip(shown.letters, shown.events, shown.tags, strict=True)
            ],
            "events": [_event_row(calendar.user.id, event) for event in shown.events],
        }
        for shown in calendar.rounds
    ]


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
        dataset = Dataset(7, (schema,), len(schema.user_roles), {"train": 1, "validation": 0, "test": 0})
        calendars = [dataset.calendar(dataset.user(name)) for name in dataset.users("train")]
        answer.append(
            {
                "file": schema.name,
                "organisation": schema.archetype,
                "roles": len(schema.user_roles),
                "rounds": sum(len(calendar.rounds) for calendar in calendars),
                "rejected": sum(sum(calendar.rejected.values()) for calendar in calendars),
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
