"""No form of a secret leaves a run: not in what a policy says or calls, nor in a tool's answer, an error or a log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from command_line import Agentfw, Answer

KEY = "Hunter2/Swordfish+and=Chips>>>???"
FORMS = {
    "plain": KEY,
    "nested address": quote(quote(KEY, safe=""), safe=""),
}
"""Some of those that are found; tests of secrets by themselves have all of them."""

LEAKY = """
import json
import logging
from pathlib import Path

from pydantic import SecretStr

from agentfw import Component, Generation, Memory, Policy, RewardModel, Score, Settings, hookimpl
from agentfw.episode import Call
from agentfw.memory import Recollection
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

class DiarySettings(Settings):
    token: str

class Diary(Memory):
    def __init__(self, settings):
        self.token = settings.token

    async def recall(self, query):
        return [Recollection(f"the token is {self.token}" if query.task.index == 0 else int(self.token))]

@hookimpl
def agentfw_turn(run, episode_id, turn):
    with open("hooked.txt", "a") as file:
        file.write(json.dumps([turn.text, [dict(call.arguments) for call in turn.calls]]))

@hookimpl
def agentfw_tools():
    return [Component("lookup", f"{__name__}:lookup", "", settings=f"{__name__}:LookupSettings")]

@hookimpl
def agentfw_memories():
    return [Component("diary", f"{__name__}:Diary", "", settings=f"{__name__}:DiarySettings")]

@hookimpl
def agentfw_policies():
    return [Component("parrot", f"{__name__}:Parrot", "")]

@hookimpl
def agentfw_reward_models():
    return [Component("gossip", f"{__name__}:Gossip", "")]
"""


Leaky = Callable[..., tuple[Answer, dict[str, str]]]
"""Runs the parrot. Returns the answer, and all texts that came of it, by their names."""


@pytest.fixture
def leaky(agentfw: Agentfw, install: Callable[..., None]) -> Leaky:
    install("agentfw-leaky", "[agentfw]\nleaky = agentfw_leaky\n", LEAKY)

    def run(form: str, *words: str, **settings: str) -> tuple[Answer, dict[str, str]]:
        Path("form.txt").write_text(form)
        chosen = [f"{key}={value}" for key, value in {"retries": "0", "concurrency": "1", **settings}.items()]
        given = [word for each in chosen for word in ("--set", each)]
        answer = agentfw("run", "guessing", "--policy", "parrot", "--episodes", "2", *words, *given)
        files = [path for path in (*Path("runs").rglob("*"), *Path().glob("*.txt")) if path.is_file()]
        seen = {path.name: path.read_bytes().decode(errors="replace") for path in files}
        del seen["form.txt"]
        return answer, seen | {"out": answer.out, "err": answer.err}

    return run


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_form_of_a_tools_secret_is_recorded_printed_or_sent(leaky: Leaky, form: str) -> None:
    words = ("--tool", "lookup", "--reward", "gossip", "--debug")

    answer, seen = leaky(form, *words, **{"tool.lookup.key": KEY, "max_failed": "0.5"})

    assert answer.code == 0, answer.err
    for name, text in seen.items():
        assert form not in text, name
        assert "swordfish" not in text.lower(), name
    turn = json.loads(seen["episodes.jsonl"].splitlines()[0])["turns"][0]
    assert turn["text"].startswith("I know "), "the turn itself is recorded"
    assert "**********" in json.dumps(turn["calls"])
    for name in ("heard.txt", "hooked.txt", "shown.txt"):
        assert "**********" in seen[name], name
    assert "found with" in seen["shown.txt"]


def test_a_setting_that_is_named_like_a_secret_is_one_in_what_is_recalled_and_in_errors(leaky: Leaky) -> None:
    words, settings = ("--memory", "diary"), {"memory.diary.token": "token-of-a-diary"}

    failed, seen_then = leaky("nothing", *words, **settings)
    answer, seen = leaky("nothing", *words, **settings, max_failed="0.5")

    assert (failed.code, answer.code) == (3, 0)
    for name, text in (*seen_then.items(), *seen.items()):
        assert "token-of-a-diary" not in text, name
    assert "the token is ****" in seen["shown.txt"]
    wrong = "invalid literal for int() with base 10: '**********'"
    assert wrong in failed.err
    assert wrong in seen["failed.jsonl"]
    assert json.loads(seen["run.json"])["spec"]["memories"][0]["settings"] == {"token": "**********"}
