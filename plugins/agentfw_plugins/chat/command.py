"""`agentfw chat`: talk with a policy in the terminal.

This module is imported for --help, so the command imports what it needs.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.errors import AgentfwError, RunInUseError, SettingsError
from agentfw.printing.out import Out

from ..command_options import json_option, runs_option, spec_options

if TYPE_CHECKING:
    from agentfw.runs import LiveRun

    from .conversation import Screen


@click.command()
@click.option(
    "--policy", metavar="NAME", help="Policy that answers, or a run: its policy, of a training the newest version."
)
@click.option(
    "--model",
    metavar="MODEL",
    help="Model of the policy: an id of Hugging Face (ORG/NAME), a folder, a GGUF file, or smollm2.",
)
@click.option("--memory", "memories", multiple=True, metavar="NAME", help="Memory to use. Can be repeated.")
@click.option("--tool", "tools", multiple=True, metavar="NAME[=ALIAS]", help="Tool to offer. Can be repeated.")
@spec_options
@click.option("--user", default="me", show_default=True, help="User to recall and learn for.")
@runs_option
@click.option("--new", "fresh", is_flag=True, help="Begin a new run, with empty memories.")
@json_option
def chat(user: str, runs: Path, fresh: bool, out: Out, **given: Any) -> None:
    """Talk with a policy, and let it learn from what you think of its answers.

    Each conversation is an episode of a run. With the same options, the newest such run is continued, so that its
    memories know what they learned. /help shows what can be typed besides words.
    """
    named = given["policy"] or given["model"] or given["spec"]
    if not named and not any(one.startswith("policy") for one in given["assignments"]):
        raise SettingsError(
            "there is no model to talk with",
            fix="a local server:      agentfw chat --policy openai --set policy.base_url=http://localhost:11434/v1"
            " --set policy.model=NAME\n"
            "       a model in this process: agentfw chat --model smollm2, or ORG/NAME, a folder, or a GGUF file",
        )
    from ..gateway.live import opened
    from .conversation import Screen, TerminalScreen

    live = opened(runs, start="chat", again="" if fresh else "newest", **given)
    in_terminal = sys.stdin.isatty() and out.stream.isatty() and not out.json
    screen = TerminalScreen(out) if in_terminal else Screen(out)
    is_new = next(iter(live.folder.path.glob("*.jsonl")), None) is None
    try:
        asyncio.run(_talk(live, user, screen, out))
    except RunInUseError as error:
        fix = "end the other conversation, or begin a run of its own: agentfw chat --new, with the same options"
        raise RunInUseError(error.message, fix=fix) from None
    except AgentfwError:
        if is_new and not any(episode.turns for episode in live.folder.episodes()):
            shutil.rmtree(live.folder.path, ignore_errors=True)  # nobody answered: there is no run to list
        raise


async def _talk(live: LiveRun, user: str, screen: Screen, out: Out) -> None:
    from .conversation import Conversation, TerminalScreen, from_pipe, from_terminal, talk_by_lines

    async with live:
        for session in list(live.sessions.values()):
            if not session.in_flight:
                await live.conclude(session, "interrupted")
                out.note("the last conversation was interrupted; what was said in it is kept")
        out.note(f"{live.assembly.spec.policy.name}   {live.folder.path}/   /help for commands")
        conversation = Conversation(live, user, screen)
        try:
            if isinstance(screen, TerminalScreen):
                out.hand_over()  # readline draws on stdout
                with from_terminal(live.folder.path / "typed") as ask:
                    await talk_by_lines(conversation, ask, out)
            else:
                # A file of its own, never closed: Python can't end while a thread reads from sys.stdin.
                source = open(sys.stdin.fileno(), encoding="utf-8-sig", errors="replace", closefd=False)  # noqa: SIM115
                await talk_by_lines(conversation, from_pipe(source), out)
        finally:
            # The last conversation, for --json.
            about = {
                "session": conversation.session.name if conversation.messages else None,
                "messages": [
                    {"role": message.role, "content": message.content, "calls": [call.name for call in message.calls]}
                    for message in conversation.messages
                ],
                "recalled": conversation.recalled(),
            }
            reward = await conversation.end()
    if out.json:
        out.data({**about, "folder": str(live.folder.path), "reward": reward})
    elif reward is not None:
        out.note(f"ended with reward {reward:g}")
