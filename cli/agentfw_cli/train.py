"""`agentfw train`: improves a policy.

agentfw train calendar --updates 40 --set learner.learning_rate=1e-4
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agentfw_cli.common import runs_folder
from agentfw_cli.completion import ComponentName, EnvironmentName, RunName
from agentfw_cli.execution import execute_spec
from agentfw_cli.spec_options import samples_option, spec_options

__all__ = ["train"]


@click.command()
@click.argument("environment", required=False, type=EnvironmentName("train-"))
@click.option(
    "--optimizer", type=ComponentName("optimizer"), metavar="NAME", help="Optimizer that turns scores into advantages."
)
@click.option(
    "--learner", type=ComponentName("learner"), metavar="NAME", help="Learner that makes new versions of the policy."
)
@click.option(
    "--teacher", type=ComponentName("policy"), metavar="NAME", help="Policy that plays the episodes to learn from."
)
@click.option("--updates", type=int, help="Number of updates of the policy.")
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=RunName(),
    metavar="RUN",
    help="Learn from what was recorded in this run, or from new feedback in the sessions that gateways share at this "
    "postgresql:// address. Can be repeated.",
)
@samples_option
@spec_options
def train(sources: tuple[str, ...], **given: Any) -> None:
    """Improve a policy in ENVIRONMENT from its own episodes, or from those of a teacher.

    It starts from the spec train-ENVIRONMENT that a plugin ships, or else from train-any. ENVIRONMENT can also be the
    name of another such spec, without train-. Settings come from the spec, then from the options, then from --set; the
    later ones win. `agentfw runs resume` resumes an interrupted training.

    \b
      agentfw train calendar --optimizer roundwise --updates 40
      agentfw train inbox --set policy.model=path/to/model
      agentfw train calendar --teacher linear --optimizer imitation --learner sft
      agentfw train --from last --set policy.model=path/to/model
      agentfw train --from last --optimizer kto --set policy.model=path/to/model
      agentfw train --from postgresql://db.example.org/agentfw --set policy.model=path/to/model
    """
    from agentfw.runs.spec.start import start_from_runs, start_of_training

    runs = runs_folder(given["runs"])
    start = start_from_runs(sources, runs, given["optimizer"]) if sources else start_of_training
    execute_spec(start, _check, **given)


def _check(values: Mapping[str, Any]) -> None:
    from agentfw.errors import UsageError

    if values.get("environment") is None:
        raise UsageError(
            "a training needs an environment",
            fix="name one, such as agentfw train calendar; see: agentfw plugins list --kind environment",
        )
    if values.get("optimizer") is None:
        raise UsageError(
            "a training needs an optimizer", fix="--optimizer NAME; see: agentfw plugins list --kind optimizer"
        )
