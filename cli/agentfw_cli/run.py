"""`agentfw run` and `agentfw train`: run an agent in an environment, or improve its policy there.

Executes runs for other commands, too: with a live picture, a report at the end, and a way to resume whatever stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentfw.errors import AgentfwError, SettingsError, StorageError, UsageError
from agentfw.printing.out import Out
from agentfw_cli.common import Given, note_problems, several_option, shared_options

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.records.summary import Summary
    from agentfw.runs.run import Run
    from agentfw.runs.spec.start import Start
    from agentfw_cli.interrupts import Interrupted

Command = TypeVar("Command", bound=Callable[..., Any])


def spec_options(command: Command) -> Command:
    """Add the options that `run` and `train` have in common."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


set_option = several_option(
    "--set", "assignments", "KEY=VALUE", "Change a setting, such as environment.rate=0.5. Can be repeated."
)
samples_option = click.option(
    "--samples", is_flag=True, help="Print three sampled answers of each update: the best, the median and the worst."
)
yes_option = click.option("--yes", is_flag=True, help="Approve the folders of --skill, which you have read.")
spec_option = click.option(
    "--spec",
    type=click.Path(path_type=Path),
    metavar="FILE|RUN",
    help="Spec file (TOML) to start from, or a run: the spec that it was played with.",
)
_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--policy",
        metavar="NAME",
        help="Policy that makes the decisions, or a run: its policy, of a training the newest version.",
    ),
    click.option(
        "--model",
        metavar="MODEL",
        help="Model of the policy: an id of Hugging Face (ORG/NAME), a folder, a GGUF file, or smollm2.",
    ),
    several_option("--memory", "memories", "NAME", "Memory to use. Can be repeated."),
    several_option(
        "--tool",
        "tools",
        "NAME[=ALIAS]",
        "Tool that the agent can call. Can be repeated; an alias tells two of one name apart.",
    ),
    several_option(
        "--skill",
        "skills",
        "FOLDER",
        "Skills for the agent: a folder with a SKILL.md, one of such folders, or an Agent Plugin. Can be repeated.",
    ),
    yes_option,
    several_option(
        "--reward",
        "rewards",
        "NAME[=WEIGHT]",
        "Reward model to score with, or a function of yours: FILE.py:FUNCTION. Can be repeated.",
    ),
    several_option("--tracker", "trackers", "NAME", "Also log metrics to this tracker. Can be repeated."),
    several_option("--hook", "hooks", "NAME", "Hook to use, such as approve. Can be repeated."),
    click.option(
        "--interface",
        metavar="NAME",
        help="How observations reach the agent: event_driven, step_loop, polling:EVERY or reflex.",
    ),
    click.option("--seed", type=int, help="Random seed."),
    several_option(
        "--plugin",
        "distributions",
        "DIST[VERSIONS]",
        "Plugin that must be installed and working, such as 'agentfw-tea>=1.2'. Can be repeated.",
    ),
    set_option,
    spec_option,
    shared_options("runs", "host", "quiet", "json"),
)


@click.command()
@click.argument("environment", required=False)
@click.option("--episodes", type=int, help="Number of tasks to play.")
@spec_options
def run(given: Given, **chosen: Any) -> None:
    """Run an agent in ENVIRONMENT and report how well it does.

    Without ENVIRONMENT, the default spec is run. ENVIRONMENT can also be the name of a spec that a plugin ships, or a
    file of questions, TASKS.jsonl.
    Settings come from the spec, then from the options, then from --set; the later ones win.

    \b
      agentfw run
      agentfw run inbox --interface step_loop --set environment.rate=0.5
      agentfw run gymnasium --policy random --set environment.id=CartPole-v1
    """
    from agentfw.runs.spec.start import start_of_run

    def check(values: Mapping[str, Any]) -> None:
        if values.get("optimizer") is not None:
            raise UsageError("this spec has an optimizer, so it is a training", fix="see: agentfw train --help")

    execute_spec(given, start_of_run, check, **chosen)


@click.command()
@click.argument("environment", required=False)
@click.option("--optimizer", metavar="NAME", help="Optimizer that turns scores into advantages.")
@click.option("--learner", metavar="NAME", help="Learner that makes new versions of the policy.")
@click.option("--teacher", metavar="NAME", help="Policy that plays the episodes to learn from.")
@click.option("--updates", type=int, help="Number of updates of the policy.")
@several_option(
    "--from",
    "sources",
    "RUN",
    "Learn from what was recorded in this run, or from new feedback in the sessions that gateways share at this "
    "postgresql:// address. Can be repeated.",
)
@click.option(
    "--metric",
    default="",
    metavar="NAME",
    help="With --from: metric of the feedback to learn from, or a bound of it, such as stars>=4. Default: feedback "
    "without a metric.",
)
@samples_option
@spec_options
def train(given: Given, sources: tuple[str, ...], metric: str, **chosen: Any) -> None:
    """Improve a policy in ENVIRONMENT from its own episodes, or from those of a teacher.

    It starts from the spec train-ENVIRONMENT that a plugin ships, or else from train-any. ENVIRONMENT can also be the
    name of another such spec, without train-, or a file of questions, TASKS.jsonl. Settings come from the spec, then
    from the options, then from --set; the later ones win. `agentfw runs resume` resumes an interrupted training.

    \b
      agentfw train tasks.jsonl --model smollm2 --reward rewards.py:correct
      agentfw train calendar --optimizer roundwise --updates 40
      agentfw train inbox --model path/to/model
      agentfw train calendar --teacher linear --optimizer imitation --learner sft
      agentfw train --from last --model path/to/model
      agentfw train --from last --optimizer kto --model path/to/model
      agentfw train --from postgresql://db/agentfw --model a/model
    """
    from agentfw.runs.spec.start import check_training, start_from_runs, start_of_training

    if metric and not sources:
        raise UsageError("--metric is about recorded feedback", fix="name the run that has it: --from RUN")
    start = start_from_runs(sources, given.root, chosen["optimizer"], metric) if sources else start_of_training
    execute_spec(given, start, check_training, **chosen)


def execute_spec(
    given: Given,
    start: Start,
    check: Callable[[dict[str, Any]], object],
    *,
    environment: str | None,
    distributions: tuple[str, ...],
    assignments: tuple[str, ...],
    spec: Path | None,
    yes: bool = False,
    samples: bool = False,
    **chosen: Any,
) -> None:
    """Execute a run of what was typed. `start` gives the values of the spec that it starts from, `check` raises where
    the command is not for such a spec."""
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.host.trust import require_trusted_skills
    from agentfw.runs.run import Run
    from agentfw.runs.spec.resolution import checked_spec
    from agentfw.runs.spec.start import chosen_values, naming_layers, spec_file

    root = given.root
    file = spec and spec_file(spec, root)
    host = given.host()
    for distribution in distributions:
        host.select_distribution(distribution)
    changes = parse_assignments(assignments)
    require_trusted_skills(chosen.get("skills", ()), yes=yes)
    values = chosen_values(host, start, environment, file, runs=root, options=chosen, assignments=changes)
    check(values)
    try:
        with naming_layers(values):
            run = Run.create(checked_spec(values, host), host, root)
    except SettingsError as error:
        # Nobody has typed that.
        error.message, error.fix = (text.replace("spec.", "") for text in (error.message, error.fix))
        raise
    execute(run, host, given.out, samples=samples)


def execute(run: Run, host: Host, out: Out, *, samples: bool = False) -> None:
    """Execute a run, write its report, and print the result."""
    from agentfw.runs.results.run_report import write_report
    from agentfw_cli.result_table import print_result

    note_problems(host, out, selected=True)
    if gpus := run.folder.about.get("gpus"):
        out.note(gpus)
    try:
        summary = play(run, out, samples=samples)
    finally:
        note_problems(host, out, selected=True)
    files, failed = list[Path](), None
    try:
        with out.progress("writing the report"):
            files = write_report(run.folder)
    except StorageError as error:  # the run itself is done: its result is printed first
        failed = error
        failed.fix += f"; then: agentfw report {run.folder.called}"
    if out.json:
        out.data({**summary.to_record(), "folder": str(run.folder.path), "files": [str(file) for file in files]})
    else:
        print_result(run.info, summary, out, files)
    if failed is not None:
        raise failed


def play(run: Run, out: Out, *, samples: bool = False) -> Summary:
    """Execute a run with a live picture. Whatever stops it, a line says how to resume."""
    from agentfw_cli.interrupts import Interrupted, end_process, run_until_interrupted
    from agentfw_cli.progress import watch

    def give_up(error: AgentfwError) -> None:
        _say_how_to_resume(run, error)
        out.error(error.message, error.fix)
        end_process(error.exit_code)

    try:
        with watch(run.info, out, samples=samples) as observer:
            return run_until_interrupted(run.execute(observer, give_up), lambda why: _tell_interrupted(run, why, out))
    except AgentfwError as error:
        _say_how_to_resume(run, error)
        raise
    except Interrupted as interrupted:
        _tell_interrupted(run, interrupted, out)
        raise click.exceptions.Exit(interrupted.exit_code) from None


def _say_how_to_resume(run: Run, error: AgentfwError) -> None:
    if not isinstance(error, UsageError):  # a wrong setting stays wrong
        change = f" --set {error.change}" if error.change else ""
        error.fix = f"{error.fix}; then resume: agentfw runs resume {run.folder.called}{change}".removeprefix("; ")


def _tell_interrupted(run: Run, interrupted: Interrupted, out: Out) -> None:
    try:
        done = f" ({run.folder.how_far})"
    except AgentfwError:  # damaged: the next command says so
        done = ""
    out.error(
        f"every episode that was finished is kept{done}",
        f"resume with: agentfw runs resume {run.folder.called}",
        label=interrupted.label,
    )
