"""Conversations of ABCD, annotated by rule and validated as the ProActor paper does, and its six reward rules on them.

    python plugins/papers/benchmarks/proactive_abcd.py --file abcd_sample.json --work FOLDER

The file is that of the public repository, whole or its sample, and stays where it is. The first table stands beside the
paper's table 3: the share of triggers whose action was ready at least so many turns before, and of dialogues of which
more than 0.8 passes. Those at margin 0 are kept. Then every flow is held out in turn: `tiny-proactive`, which was made
from generated dialogues, is trained on the turns of the other flows, and measured on those of this one. The judge is a
program, as in `proactive_rewards.py`, which has the rules. Intervals are over turns.

What is in FOLDER is not done again: a command that was broken off goes on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from proactive_rewards import TABLES, figures_over_seeds, spec_of

from agentfw import Host
from agentfw.runs import apply_assignments, in_processes
from agentfw_benchmarks import Options, print_markdown, shown, tell
from agentfw_benchmarks.runs import played, runs_below
from agentfw_papers.timing import AlignmentReport, annotate, validate
from agentfw_papers.worlds.proactive.conversations import asked_turns
from agentfw_papers.worlds.proactive.dataset import Example, write_data
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.importers import importer

KEEP = 0.8
FIGURES = ("ac", "max_ac", "pt", "ftr", "rar", "ready")
RULES = TABLES["rules"]


def examples_of(path: Path) -> list[Example]:
    """The conversations of the file with their references."""
    domain = load_domain("abcd")
    dialogues = importer("abcd")(path, domain).dialogues
    return [Example(one, annotate(one, domain.catalog)) for one in dialogues if one.triggers]


def alignment(examples: Sequence[Example]) -> AlignmentReport:
    return validate(
        {one.id: one.dialogue.triggers for one in examples}, {one.id: one.annotation.windows for one in examples}
    )


def hold_out(flow: str, examples: Sequence[Example], folder: Path) -> int:
    """Write the data in which this flow is the test split. Return the number of its turns."""
    split = {True: "test", False: "train"}
    catalog = load_domain("abcd").catalog
    moved = [Example(replace(one.dialogue, split=split[one.dialogue.flow == flow]), one.annotation) for one in examples]
    write_data(folder, moved, catalog, {"made_by": "rule", "held_out": flow})
    return sum(len(asked_turns(one.dialogue, "spoken")) for one in moved if one.dialogue.split == "test")


def train(job: tuple[str, str, int, int, argparse.Namespace]) -> None:
    """One training, from its beginning or from where it was broken off."""
    import torch

    torch.set_num_threads(1)
    rule, flow, turns, seed, options = job
    host = Host.load()
    options = argparse.Namespace(updates=options.updates, turns=turns, work=options.work)
    spec = spec_of("rules", rule, seed, options, host)
    data = {"data": str(options.work / f"without {flow}"), "flows": []}
    played(apply_assignments(spec, {"environment": data}), host, folder_of(rule, flow, seed, options))


def folder_of(rule: str, flow: str, seed: int, options: argparse.Namespace) -> Path:
    return Path(options.work) / f"{options.updates} updates" / f"{rule}, without {flow}, seed {seed}"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    examples = examples_of(options.file)
    report = alignment(examples)
    kept = [one for one in examples if one.id in set(report.kept(KEEP))]
    flows = {flow: hold_out(flow, kept, options.work / f"without {flow}") for flow in _flows(kept)}
    jobs = [(rule, flow, flows[flow], seed, options) for seed in options.seeds for rule in RULES for flow in flows]
    in_processes(train, jobs, options.jobs)
    rows: dict[str, Any] = {}
    for rule in RULES:
        several = [_stages(rule, flows, seed, options) for seed in options.seeds]
        rows.setdefault("before", figures_over_seeds([first for first, _ in several]))
        rows[rule] = figures_over_seeds([last for _, last in several])
    margins = [
        {"margin": one.margin, "triggers": one.triggers, "passed": one.passed, "share": one.share}
        | {"kept": one.above(KEEP)}
        for one in report.margins
    ]
    counts = {"dialogues": len(examples), "kept": len(kept), "held-out turns": flows}
    return {**counts, "updates": options.updates, "seeds": options.seeds, "margins": margins, "rows": rows}


def _flows(examples: Sequence[Example]) -> list[str]:
    return sorted({one.dialogue.flow for one in examples})


def _stages(rule: str, flows: Sequence[str] | dict[str, int], seed: int, options: argparse.Namespace) -> Any:
    """The figures of all held-out turns before and after."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for flow in flows:
        (folder,) = runs_below(folder_of(rule, flow, seed, options))
        stages = folder.stages()
        for each, update in zip(found, (min(stages), max(stages)), strict=True):
            each.update({f"{flow} {one['episode']}": one["outcome"] for one in stages[update]})
    return found


def show(result: dict[str, Any]) -> None:
    print(f"{result['kept']} of {result['dialogues']} dialogues are kept; held-out turns: {result['held-out turns']}\n")
    rows = [
        [one["margin"], f"{one['passed']} of {one['triggers']}", f"{one['share']:.1%}", f"{one['kept']:.1%}"]
        for one in result["margins"]
    ]
    print_markdown(["margin", "triggers", "share", f"dialogues above {KEEP:g}"], rows)
    print()
    table = [
        [name, *(shown(row[each]) if each in row else "" for each in FIGURES)] for name, row in result["rows"].items()
    ]
    print_markdown(["", *FIGURES], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        file=(Path, "abcd_v1.1.json.gz, or abcd_sample.json"),
        work=(Path, "directory for data and trainings"),
        seeds=([7], "of the trainings"),
        updates=12,
        jobs=(1, "trainings at once"),
    )
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
