"""No form of a secret leaves a run: not in what a policy says or calls, nor in a tool's answer, an error or a log."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from command_line import Agentfw

KEY = "Hunter2/Swordfish+and=Chips>>>???"
"""Its base64 has the letters that addresses write otherwise."""
FORMS = {
    "plain": KEY,
    "lower": KEY.lower(),
    "address": f"https://example.test/?key={quote(KEY, safe='')}&lang=en",
    "nested address": quote(quote(KEY, safe=""), safe=""),
    "json": json.dumps({"key": KEY}),
    "base64": b64encode(KEY.encode()).decode(),
    "basic": b64encode(f"ana:{KEY}".encode()).decode(),
    "url base64": urlsafe_b64encode(f"x{KEY}".encode()).decode(),
    "repr": repr(KEY.encode()),
}
"""What the documentation of runs promises to find."""

LEAKY = """
import json
import logging
from pathlib import Path

from pydantic import SecretStr

from agentfw import Component, Generation, Policy, RewardModel, Score, Settings, hookimpl
from agentfw.episode import Call
from agentfw.tool import tool


class LookupSettings(Settings):
    key: SecretStr


def lookup(settings):
    @tool
    async def lookup(term: str, more: list[dict[str, str]] = []) -> str:
        '''Look a term up.'''
        form = Path("form.txt").read_text()
        with open("heard.txt", "a") as file:
            file.write(json.dumps([term, more]))
        logging.getLogger("lookup").warning("asked with %s", form)
        print("looking with", form)
        if term == "fail":
            raise ValueError(f"refused: {form}")
        return f"found with {form}"

    return lookup


class Parrot(Policy):
    '''Looks up what it shouldn't know, and says it.'''

    async def generate(self, request):
        form = Path("form.txt").read_text()
        said = sum(message.role == "assistant" for message in request.messages)
        with open("shown.txt", "a") as file:
            file.write("".join(message.content for message in request.messages))
        if said == 0:
            return Generation(f"I know {form}", calls=(Call("lookup", {"term": form, "more": [{"deep": form}]}),))
        if said == 1:
            return Generation("", calls=(Call("lookup", {"term": "fail"}),))
        return Generation("done", count=1)


class Gossip(RewardModel):
    async def score(self, group):
        if group[0].task.index:
            raise ValueError(Path("form.txt").read_text())
        return [Score(one.id, "gossip", 1.0) for one in group]


@hookimpl
def agentfw_turn(run, episode_id, turn):
    with open("hooked.txt", "a") as file:
        file.write(json.dumps([turn.text, [dict(call.arguments) for call in turn.calls]]))


@hookimpl
def agentfw_tools():
    return [Component("lookup", f"{__name__}:lookup", "", settings=f"{__name__}:LookupSettings")]


@hookimpl
def agentfw_policies():
    return [Component("parrot", f"{__name__}:Parrot", "")]


@hookimpl
def agentfw_reward_models():
    return [Component("gossip", f"{__name__}:Gossip", "")]
"""


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_form_of_a_tools_secret_is_recorded_printed_or_sent(
    agentfw: Agentfw, install: Callable[..., None], form: str, caplog: pytest.LogCaptureFixture
) -> None:
    install("agentfw-leaky", "[agentfw]\nleaky = agentfw_leaky\n", LEAKY)
    Path("form.txt").write_text(form)
    words = ("run", "guessing", "--policy", "parrot", "--tool", "lookup", "--reward", "gossip", "--episodes", "2")
    chosen = (f"tool.lookup.key={KEY}", "max_failed=0.5", "retries=0", "concurrency=1")

    answer = agentfw(*words, *(word for each in chosen for word in ("--set", each)), "--debug")

    assert answer.code == 0, answer.err
    files = [path for path in Path("runs").rglob("*") if path.is_file()]
    seen = {str(path): path.read_bytes().decode(errors="replace") for path in files}
    seen |= {"out": answer.out, "err": answer.err, "shown to the policy": Path("shown.txt").read_text()}
    seen |= {"heard by the tool": Path("heard.txt").read_text(), "seen by a hook": Path("hooked.txt").read_text()}
    # The part of each form that no mask may leave.
    core = max(form.replace("https://example.test/?key=", "").replace("&lang=en", "").split('"'), key=len)
    for name, text in seen.items():
        assert core not in text, name
        assert "swordfish" not in text.lower(), name
    recorded = _episodes()
    assert recorded[0]["turns"][0]["text"].startswith("I know "), "the turn itself is recorded"
    assert "**********" in json.dumps(recorded[0]["turns"][0]["calls"])
    for name in ("heard by the tool", "seen by a hook"):
        assert "**********" in seen[name]
    assert "found with" in seen["shown to the policy"]
    assert "**********" in seen["shown to the policy"]


def _episodes() -> list[dict[str, Any]]:
    (path,) = Path("runs").glob("*/episodes.jsonl")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
