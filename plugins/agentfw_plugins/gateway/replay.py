"""`agentfw serve replay`: the questions of recorded sessions, asked again of another variant.

Each question is asked with the conversation as it was recorded up to it, so that answers can be compared one by one.
Calls are not carried out. The answers are a run of their own, whose sessions have the names and numbers of the old
ones, by which `agentfw view` puts the two beside each other.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import click

from agentfw import Episode, Host
from agentfw.boundary.settings_input import parse_assignments
from agentfw.errors import AgentfwError, UsageError
from agentfw.printing.out import Out, counted
from agentfw.runs import LiveRun, RunFolder, apply_assignments, find_run, parse_spec, policy_of_run, read_sessions

from ..command_options import json_option, runs_option, set_option, show
from .learning.version_file import VersionFile, named
from .variants import Variant, read_variants

_AT_ONCE = 8
_VIEW = "http://127.0.0.1:8766"


@click.command()
@click.argument("run")
@click.option(
    "--variant",
    "text",
    metavar="NAME:KEY=VALUE,...",
    help="Variant that answers, with model=NAME, prompt=FILE and version=vN.",
)
@click.option("--policy", help="Policy that answers, or a run: of a training the newest version. Default: that of RUN.")
@click.option("--user", help="Only the sessions of this user.")
@click.option("--session", help="Only the session of this name.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of sessions, the newest ones. Default: all.")
@set_option
@runs_option
@json_option
def replay(
    run: str,
    text: str | None,
    policy: str | None,
    user: str | None,
    session: str | None,
    limit: int | None,
    assignments: tuple[str, ...],
    runs: Path,
    out: Out,
) -> None:
    """Ask the questions of a recorded gateway RUN again, of another variant or policy."""
    source = find_run(runs, run)
    variant = read_variants([text])[1] if text else Variant("again")
    if not variant.remembers:
        words = "memory can't be left out of recorded conversations: what was recalled is in their messages"
        raise UsageError(words, fix="compare it in service: agentfw serve variants start")
    episodes = [one for one in read_sessions(source.path, session) if one.turns and user in (None, one.task.user)]
    episodes = episodes[-limit:] if limit else episodes
    if not episodes:
        raise UsageError(f"{source.path} has no such sessions", fix="name a run of agentfw serve or agentfw chat")
    host = Host.load()
    answers = policy_of_run(host, policy, runs) if policy else source.about["spec"]["policy"]
    live = LiveRun.create(parse_spec(_spec(source, answers, variant, assignments)), host, runs)
    live.folder.rewrite({**live.folder.about, "replay_of": source.about["created"]})  # by which the view pairs them
    with out.progress(f"asking {counted(sum(len(one.turns) for one in episodes), 'question')} again"):
        new, failures = asyncio.run(_asked_again(live, episodes, variant))
    names = {"left": source.path.name, "right": live.folder.path.name}
    pairs = [(old, turn) for before, after in new for old, turn in zip(before.turns, after.turns, strict=False)]
    told: dict[str, Any] = {
        "run": live.folder.path.name,
        "folder": str(live.folder.path),
        "sessions": len(new),
        "answers": len(pairs),
        "same": sum(old.text == turn.text and old.calls == turn.calls for old, turn in pairs),
        "failed": len(failures),
        "cost": sum(turn.usage.cost or 0.0 for _, turn in pairs),
        "cost before": sum(old.usage.cost or 0.0 for old, _ in pairs),
        "compare": f"{_VIEW}/runs?{urlencode(names)}",
    }
    show(
        out, told, f"{counted(len(pairs), 'answer')} of {variant.name} in {live.folder.path}/, {told['same']} as before"
    )
    for failure in () if out.json else sorted({*failures}):
        out.warning(failure)
    if not out.json:
        out.line(f"compare: agentfw view --runs {runs}   then open {told['compare']}")


def _spec(
    source: RunFolder, answers: str | dict[str, Any], variant: Variant, assignments: tuple[str, ...]
) -> dict[str, Any]:
    """What the recorded run says, with the policy that answers and what differs in the variant."""
    spec = source.about["spec"]
    given: dict[str, Any] = {"name": answers} if isinstance(answers, str) else answers
    policy = {"name": given["name"], "settings": dict(given.get("settings", {}))}
    if variant.model:
        policy["settings"]["model"] = variant.model
    if variant.version not in ("", named(0)):  # which is the policy as it came
        file = VersionFile(source.path)
        known = {one.name: one for one in (file.read().versions if file.exists else ()) if one.adapter}
        if variant.version not in known:
            words = f"{source.path} has no version {variant.version} that was served"
            raise UsageError(words, fix="see: agentfw serve versions")
        policy["settings"]["adapter"] = str(file.fetch(known[variant.version]))
    values = {"environment": spec["environment"]["name"], "policy": policy, "seed": spec["seed"], "hooks": ["budget"]}
    return dict(apply_assignments(values, parse_assignments(assignments)))


async def _asked_again(
    live: LiveRun, episodes: list[Episode], variant: Variant
) -> tuple[list[tuple[Episode, Episode]], list[str]]:
    from agentfw.request import Action

    failures, places = list[str](), asyncio.Semaphore(_AT_ONCE)

    async def again(episode: Episode) -> tuple[Episode, Episode]:
        async with places:
            session = live.begin(episode.task.query, episode.task.user, episode.task.index)
            for turn in episode.turns:
                try:
                    await session.answer(
                        variant.prompted([episode.messages[place] for place in turn.shown]),
                        [Action(**action) for action in episode.actions.get(turn.seat, ())],
                        replace(session.sampling, max_tokens=turn.max_tokens),
                        stop=turn.stop,
                        carries_out=False,
                    )
                except AgentfwError as error:
                    failures.append(error.message)
                    break  # the next answers would stand beside other questions
                await live.keep(session)
            await live.conclude(session)
            return episode, session.episode

    async with live:
        found = await asyncio.gather(*(again(episode) for episode in episodes))
    return list(found), failures
