"""`agentfw train`: from words on a command line to a training, with a live picture.

The one rule: what a person gave last and most precisely holds: a spec file, then the options, then `--set`.

    agentfw train calendar --updates 40 --set learner.learning_rate=1e-4
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.out import Out
from agentfw_cli.common import figure_row, load_host, name_of, runs_folder
from agentfw_cli.playing import execute
from agentfw_cli.spec_options import kept, spec_options, with_options

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.training.training import Training, TrainingSummary

__all__ = ["tell", "train"]

_BARS = 5
"""So many evaluations are drawn as bars, the first and the last among them."""
_PREFIX = "train-"
"""What the names of specs for trainings begin with; the rest is an environment, `default`, or `any`."""


@click.command()
@click.argument("environment", required=False)
@click.option("--optimizer", metavar="NAME", help="What makes advantages of scores.")
@click.option("--learner", metavar="NAME", help="What makes a new version of the policy.")
@click.option("--teacher", metavar="NAME", help="A policy that plays what is learned from.")
@click.option("--updates", type=int, help="How many times the policy is improved.")
@spec_options
def train(
    environment: str | None,
    distributions: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    runs: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Improve a policy in ENVIRONMENT from its own episodes, or from a teacher's.

    It begins with the spec train-ENVIRONMENT that a plugin ships, or with train-any; everything can be set: by --spec
    FILE, then by the options, then by --set. `agentfw runs resume` goes on with a training that was broken off.

    \b
      agentfw train calendar --optimizer roundwise --updates 40
      agentfw train inbox --set policy.model=path/to/model --set learner.model=path/to/model
      agentfw train calendar --teacher linear --optimizer imitation --learner sft
    """
    from agentfw.runs.spec import apply_assignments
    from agentfw.settings import parse_assignments
    from agentfw.training.spec import parse_train_spec
    from agentfw.training.training import Training

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    for distribution in distributions:
        host.select_distribution(distribution)
    values = with_options(_start(host, environment, spec), chosen)
    values = apply_assignments(values, parse_assignments(assignments))
    made = Training.create(parse_train_spec(values), host, runs_folder(runs))
    execute(made, host, out)


def _start(host: Host, name: str | None, spec: Path | None) -> dict[str, Any]:
    """The plain values to begin with: the file that was given, or what a plugin ships for this environment."""
    from agentfw.runs.spec import read_spec

    if name is not None:
        host.find("environment", name)  # a slip is told before any file is read
    specs = host.specs()
    if spec is not None:
        values = read_spec(spec)
    else:
        known = [_PREFIX + each for each in ("default" if name is None else name, "any")]
        found = next((each for each in known if each in specs), None)
        values = {} if found is None else read_spec(Path(host.find_spec(found).path))
    return values if name is None else {**values, "environment": kept(values.get("environment"), name)}


def tell(made: Training, summary: TrainingSummary, out: Out, files: list[Path]) -> None:
    from agentfw.report import bars
    from agentfw.runs.comparison import change
    from agentfw.runs.summary import in_order, leading
    from agentfw.training.figures import means

    folder = made.folder
    headline = leading(summary.before.keys() & summary.figures.keys(), folder.headline)
    stages = folder.stages()
    numbers = sorted(stages)
    shown = [numbers[place * (len(numbers) - 1) // (_BARS - 1)] for place in range(_BARS)]
    values = {number: means(stages[number]).get(headline, math.nan) for number in shown}
    out.line(f"{headline} after {', '.join(map(str, values))} updates   {bars(list(values.values()))}")
    difference = change(folder)
    if difference is not None:
        out.line(f"from the first to the last, task by task   {difference}")
    out.line()
    record = summary.to_record()
    rows = []
    for name in in_order(record["figures"], headline):
        before = record["before"].get(name)
        start = figure_row(name, before)[1:] if before else ["", ""]
        rows.append([name, *start, *figure_row(name, record["figures"][name])[1:]])
    out.table(["", "before", "95% interval", "after", "95% interval"], rows, right=(1, 3))
    out.line()
    out.line(f"{folder.path}/   {'   '.join(file.name for file in files)}".rstrip())
    if summary.adapter:
        out.line(f"{folder.path / summary.adapter}   {summary.version}")
    else:
        out.note("nothing was learned: in no update did any group of episodes tell good from bad")
    where = "" if name_of(folder) == made.id else f" --runs {folder.path.parent}"
    out.note(f"next: agentfw runs show last{where}    agentfw compare {made.id.rpartition('-')[2]} OTHER{where}")
