"""`agentfw proactive`: make, import, annotate and validate dialogues; rate and rank what was predicted in them.

    agentfw proactive domain check home_loan
    agentfw proactive make --domain home_loan --dialogues 1000 --out data
    agentfw proactive annotate data --policy openai --set policy.model=gpt-5-mini --out annotated
    agentfw proactive validate annotated --keep 0.8 --out kept

This module is imported for `agentfw proactive --help`, so each command imports what it needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option

from .policy_options import asking_options

if TYPE_CHECKING:
    from agentfw_papers.timing import Action, AlignmentReport

    from .annotating import Unit


@click.command()
@click.argument("run", default="last")
@click.option("--policy", required=True, help="Policy that judges; `agentfw plugins list` shows all.")
@asking_options
@click.option("--most", type=click.IntRange(1), help="Maximum number of dialogues. Default: all.")
@json_option
def rate(
    run: str, policy: str, assignments: tuple[str, ...], jobs: int, retries: int, most: int | None, out: Out
) -> None:
    """Let a judge rate the predictions of a run, from 1 to 5, for the proactiveness rating (PR).

    RUN is the id or the directory of a run or a training. Default: the last one. The judge reads each dialogue up to a
    turn and what was predicted there, and no reference. Its answers are kept in ratings.jsonl, in the directory of the
    run. Run the same command again to resume.
    """
    from agentfw import Host
    from agentfw.host import runs_directory
    from agentfw.runs import find_run

    from .asking import Asker
    from .policy_options import asking, chosen_policy
    from .proactiveness import JOURNAL, Rater, read_predictions

    folder = find_run(runs_directory(None), run)
    predicted = read_predictions(folder, Host.load())
    for notice in predicted.notices:
        out.note(notice)
    chosen = chosen_policy(policy, assignments)
    asker = Asker(chosen.policy, name=chosen.name, sampling=chosen.sampling, jobs=jobs, retries=retries)
    rater = Rater(predicted, asker, most=most)
    journal = folder.path / JOURNAL
    found = asking(chosen, lambda progress: rater.rate(journal, progress), journal, out)
    if out.json:
        out.data({"run": folder.id, "judge": chosen.name, "file": str(journal), **found.facts()})
        return
    rating = found.mean
    out.line("nothing could be rated" if rating is None else f"PR {rating}, mean of {rating.count} dialogues")
    out.table(["rating", "turns"], [[str(value), str(count)] for value, count in found.counts.items()], right=(0, 1))
    out.line(f"{journal}")
    if found.failed:
        (where, reason), *_ = found.failed.items()
        out.note(f"{len(found.failed)} turns could not be rated, such as {where}: {reason}")


_FOLDER = click.Path(path_type=Path, file_okay=False)
_output = click.option("--out", "folder", type=_FOLDER, required=True, help="Output directory.")
_domain = click.option(
    "--domain", "domain_name", default="", help="Domain name or directory. Default: that of the data."
)


# As the main command has it; click keeps the help option that a command is first invoked with.
@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def proactive() -> None:
    """Data of the proactive world: make, import, annotate and validate dialogues, and rate and rank predictions."""


proactive.add_command(rate)


@proactive.group()
def domain() -> None:
    """Check and show domains: catalogs of actions, with workflows and phrases."""


@domain.command("check")
@click.argument("name")
@json_option
def check_domain(name: str, out: Out) -> None:
    """Read a domain, and generate a dialogue of each split if it has phrases."""
    from agentfw.errors import SettingsError

    from .dataset import SPLITS, generated
    from .domains import load_domain

    known = load_domain(name)
    catalog = known.catalog
    facts: dict[str, Any] = {
        "domain": catalog.name,
        "version": catalog.version,
        "catalog": catalog.digest,
        "actions": len(catalog.actions),
        "without_parameters": sum(not one.parameters for one in catalog.actions),
        "slots": len(catalog.parameters),
        "flows": len(catalog.flows),
        "workflows": len(catalog.workflows),
        "observed": known.observed,
    }
    if known.phrases:
        for split in SPLITS:
            generated(known, split, seed=0, count=1)
        missing = [one.name for one in catalog.workflows if one.name not in known.phrases.get("openings", {})]
        facts["workflows_without_openings"] = missing
    else:
        out.note(f"{catalog.name} has no phrases: dialogues can be imported, but not generated")
    if not catalog.workflows and known.phrases:
        raise SettingsError(f'the domain "{catalog.name}" has no workflows', fix="add workflows to its domain.yaml")
    if out.json:
        out.data(facts)
        return
    out.table(["", ""], [[key.replace("_", " "), _text(value)] for key, value in facts.items()])


@domain.command("show")
@click.argument("name")
@click.option(
    "--style",
    type=click.Choice(["full", "signatures", "names"]),
    default="signatures",
    show_default=True,
    help="JSON schemas, one line per action, or the names.",
)
@click.option(
    "--observed", "data", type=_FOLDER, help="Directory of dialogues whose triggers tell which parameters are required."
)
@json_option
def show_domain(name: str, style: str, data: Path | None, out: Out) -> None:
    """Print the catalog of a domain as a model reads it."""
    from agentfw_papers.timing import read_dialogues
    from agentfw_plugins.rewards import translated_errors

    from .dataset import DIALOGUES
    from .domains import load_domain

    catalog = load_domain(name).catalog
    if data:
        with translated_errors():
            catalog = catalog.with_observed(
                trigger for dialogue in read_dialogues(data / DIALOGUES) for trigger in dialogue.triggers
            )
    if out.json:
        out.data({"digest": catalog.digest, "actions": [_action(one) for one in catalog.actions]})
    else:
        out.line(catalog.render(style))  # type: ignore[arg-type]


@proactive.command()
@click.option("--domain", "domain_name", required=True, help="Domain name or directory.")
@click.option(
    "--dialogues",
    type=click.IntRange(3, 1_000_000),
    default=1000,
    show_default=True,
    help="Number of dialogues: 8 of 10 for training, the rest for validation and test.",
)
@click.option("--seed", type=click.IntRange(0), default=7, show_default=True, help="Random seed.")
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Generator setting, such as early_end=0.5. Can be repeated.",
)
@_output
@json_option
def make(domain_name: str, dialogues: int, seed: int, assignments: tuple[str, ...], folder: Path, out: Out) -> None:
    """Generate dialogues with references from the workflows and phrases of a domain."""
    from agentfw.boundary.settings_input import parse_assignments, validate

    from .dataset import SPLITS, generated, write_data
    from .domains import load_domain
    from .settings import GeneratorSettings

    settings = validate(GeneratorSettings, parse_assignments(assignments), "--set")
    assert isinstance(settings, GeneratorSettings)
    known = load_domain(domain_name)
    held_out = max(1, dialogues // 10)
    counts = dict(zip(SPLITS, (dialogues - 2 * held_out, held_out, held_out), strict=True))
    examples = [one for split, count in counts.items() for one in generated(known, split, seed, count, settings)]
    facts = {"made_by": "generator", "seed": seed, "settings": settings.model_dump()}
    _print_manifest(write_data(folder, examples, known.catalog, facts), folder, out)


@proactive.command("import")
@click.argument("data_format", metavar="FORMAT")
@click.argument("file", type=click.Path(path_type=Path))
@_domain
@click.option("--lenient", is_flag=True, help="Succeed even if more than 5% of the conversations are left out.")
@_output
@json_option
def import_data(data_format: str, file: Path, domain_name: str, lenient: bool, folder: Path, out: Out) -> None:
    """Import the file of a public data set. FORMAT is its name, such as abcd."""
    from .dataset import write_dialogues
    from .domains import load_domain
    from .importers import importer

    read = importer(data_format)
    known = load_domain(domain_name or data_format)
    imported = read(file, known)
    if not imported.dialogues:
        raise UsageError(
            f"no conversation of {file} could be imported: {_reasons(imported.left_out)}", fix="check the file's format"
        )
    catalog = known.catalog
    facts = {"domain": catalog.name, "catalog": catalog.digest, "made_by": f"import of {file.name}"}
    manifest = write_dialogues(folder, imported.dialogues, {**facts, **imported.report()})
    _print_manifest(manifest, folder, out)
    if imported.left_out:
        out.note(f"left out: {_reasons(imported.left_out)}; the ids are in MANIFEST.json")
    if imported.share_left_out > 0.05 and not lenient:
        raise AgentfwError(
            f"{imported.share_left_out:.0%} of the conversations are left out, more than 5%; the rest is in {folder}",
            fix="check the reasons in MANIFEST.json, then repeat with --lenient",
        )


@proactive.command()
@click.argument("data", type=_FOLDER)
@_domain
@click.option("--policy", default="", help="Policy that annotates; `agentfw plugins list` shows all.")
@click.option("--rule", is_flag=True, help="Annotate by rule from the observed triggers, without a policy.")
@asking_options
@click.option(
    "--from", "first", type=click.IntRange(0), default=0, show_default=True, help="Number of the first dialogue."
)
@click.option("--most", type=click.IntRange(1), help="Maximum number of dialogues. Default: all.")
@click.option(
    "--by",
    "unit",
    type=click.Choice(["turn", "dialogue"]),
    default="turn",
    show_default=True,
    help="Ask about each turn, or about all turns of a dialogue at once.",
)
@click.option(
    "--observed",
    type=click.Choice(["hidden", "shown"]),
    default="hidden",
    show_default=True,
    help="Whether the annotator sees which actions were triggered.",
)
@_output
@json_option
def annotate(
    data: Path,
    domain_name: str,
    policy: str,
    rule: bool,
    assignments: tuple[str, ...],
    jobs: int,
    retries: int,
    first: int,
    most: int | None,
    unit: Unit,
    observed: str,
    folder: Path,
    out: Out,
) -> None:
    """Write the reference actions of each turn, by a policy or by rule. Run the same command again to resume."""
    from agentfw_papers.timing import annotate as annotate_by_rule
    from agentfw_papers.timing import read_dialogues
    from agentfw_plugins.rewards import translated_errors

    from .annotating import Annotator
    from .asking import Asker
    from .dataset import DIALOGUES, Example, read_manifest, write_data
    from .domains import load_domain
    from .policy_options import asking, chosen_policy

    if rule == bool(policy):
        raise UsageError(
            "pass either --policy or --rule", fix=f"agentfw proactive annotate {data} --rule --out {folder}"
        )
    manifest = read_manifest(data)
    _check_apart(folder, data)
    known = load_domain(domain_name or manifest["domain"])
    with translated_errors():
        dialogues = read_dialogues(data / DIALOGUES)[first:][:most]
    facts: dict[str, Any] = {"data": str(data)}
    if rule:
        if not any(one.triggers for one in dialogues):
            raise UsageError(
                f"{data} doesn't say which actions were triggered, so nothing can be annotated by rule",
                fix="annotate with a policy: --policy openai --set policy.model=MODEL",
            )
        with translated_errors():
            examples = [Example(one, annotate_by_rule(one, known.catalog)) for one in dialogues]
        facts["made_by"] = "rule"
    else:
        by_id = {one.id: one for one in dialogues}
        chosen = chosen_policy(policy, assignments)
        asker = Asker(chosen.policy, name=chosen.name, sampling=chosen.sampling, jobs=jobs, retries=retries)
        annotator = Annotator(known, asker, unit=unit, observed=observed == "shown")
        found = asking(chosen, lambda progress: annotator.annotate(dialogues, folder, progress), folder, out)
        if found.failed:
            example, reason = next(iter(found.failed.items()))
            out.note(f"{len(found.failed)} dialogues are left out, such as {example}: {reason}")
        examples = [Example(by_id[one.dialogue], one) for one in found.complete]
        facts |= {"made_by": chosen.name, **found.facts()}
    _print_manifest(write_data(folder, examples, known.catalog, facts), folder, out)


@proactive.command()
@click.argument("data", type=_FOLDER)
@click.option(
    "--keep",
    type=click.FloatRange(0, 1),
    default=0.8,
    show_default=True,
    help="Keep dialogues of which more than this share of the triggers passes.",
)
@click.option("--out", "folder", type=_FOLDER, help="Output directory for the dialogues that are kept.")
@json_option
def validate(data: Path, keep: float, folder: Path | None, out: Out) -> None:
    """Compare references with observed triggers: was each action ready before it was triggered?"""
    from agentfw_papers.timing import validate as align
    from agentfw_plugins.rewards import translated_errors

    from .dataset import load_data, write_examples

    dataset = load_data(data)
    _check_apart(folder, data)
    with translated_errors():
        report = align(
            {one.id: one.dialogue.triggers for one in dataset.examples},
            {one.id: one.annotation.windows for one in dataset.examples},
        )
    kept = set(report.kept(keep))
    if folder:
        examples = [one for one in dataset.examples if one.id in kept]
        write_examples(folder, examples, {**dataset.manifest, "kept_above": keep})
    if out.json:
        out.data(
            {"margins": _margins(report, keep), "kept": len(kept), "without_triggers": len(report.without_triggers)}
        )
        return
    rows = [
        [
            str(one["margin"]),
            f"{one['passed']} of {one['triggers']}",
            _share(one["share"]),
            _mean(one),
            _share(one["kept"]),
        ]
        for one in _margins(report, keep)
    ]
    out.table(["margin", "triggers", "share", "mean of dialogues", f"dialogues above {keep:g}"], rows, right=(0, 1, 2))
    out.line(f"kept: {len(kept)} of {len(dataset.examples)} dialogues; {len(report.without_triggers)} have no trigger")
    if folder:
        out.line(f"written to {folder}")


@proactive.command("rank")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def rank_systems(sources: tuple[Path, ...], out: Out) -> None:
    """Rank systems by PRI. SOURCES are run directories, or CSV files with the columns name and ac to rar."""
    from dataclasses import fields

    from agentfw_papers.timing import Figures, rank
    from agentfw_plugins.rewards import translated_errors

    from .systems import read_systems

    systems = read_systems(sources)
    with translated_errors():
        ranking = rank(systems)
    if ranking.warning:
        out.note(ranking.warning)
    columns = [field.name for field in fields(Figures)]
    if out.json:
        out.data(
            {
                "group": list(ranking.group),
                "warning": ranking.warning,
                "rows": [
                    {"name": row.name, "pri": row.pri, "consistency": row.consistency, "timing": row.timing}
                    | {column: getattr(row.figures, column) for column in columns}
                    for row in ranking.rows
                ],
            }
        )
        return
    rows = [
        [row.name, *(f"{value:.4f}" for value in (row.pri, row.consistency, row.timing))]
        + [f"{getattr(row.figures, column):.4f}" for column in columns]
        for row in ranking.rows
    ]
    out.table(["system", "pri", "ci", "ti", *columns], rows, right=tuple(range(1, 10)))
    out.line(f"PRI is relative to this group: {', '.join(ranking.group)}")


def _check_apart(folder: Path | None, data: Path) -> None:
    if folder is not None and folder.resolve() == data.resolve():
        raise UsageError(f"{folder} is the data itself, and what is left out would be lost", fix="choose another --out")


def _margins(report: AlignmentReport, keep: float) -> list[dict[str, Any]]:
    return [
        {
            "margin": one.margin,
            "triggers": one.triggers,
            "passed": one.passed,
            "share": one.share,
            "mean": one.mean,
            "deviation": one.deviation,
            "kept": one.above(keep),
        }
        for one in report.margins
    ]


def _action(action: Action) -> dict[str, Any]:
    parameters = [{"name": one.name, "type": one.type, "required": one.required} for one in action.parameters]
    return {"name": action.name, "kind": action.kind, "group": action.group, "parameters": parameters}


def _print_manifest(manifest: dict[str, Any], folder: Path, out: Out) -> None:
    if out.json:
        out.data({"folder": str(folder), **manifest})
        return
    out.table(
        ["split", "dialogues"], [[split, str(count)] for split, count in manifest["dialogues"].items()], right=(1,)
    )
    out.line(f"{manifest['turns']} turns, {manifest['triggers']} triggers; written to {folder}")


def _reasons(left_out: dict[str, list[str]]) -> str:
    return ", ".join(f"{reason} ({len(ids)})" for reason, ids in left_out.items()) or "it holds none"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _mean(row: dict[str, Any]) -> str:
    if row["mean"] is None:
        return "-"
    return f"{row['mean']:.4f}" + (f" ± {row['deviation']:.4f}" if row["deviation"] is not None else "")


def _text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
