"""`agentfw proactive rate`: a judge rates how proactive the predictions of a run are (PR)."""

from __future__ import annotations

import click

from agentfw.printing.out import Out
from agentfw_plugins.command_options import json_option

from .policy_options import asking_options


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
    from .predictions import read_predictions
    from .proactiveness import JOURNAL, Rater

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
