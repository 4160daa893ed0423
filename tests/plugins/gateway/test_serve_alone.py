"""`agentfw serve` with nothing else: in front of the provider that the environment names, with what was remembered."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, completion, refusal, serving
from command_line import Agentfw
from waiting import until

from agentfw import train

from .conftest import CLIENT, served

pytest.importorskip("snowballstemmer")
openai = pytest.importorskip("openai")

PATIENCE = 120.0
OF_PROVIDERS = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "AGENTFW_KEY")


class Alone:
    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self.process, self._errors = process, errors
        self.lines: list[str] = []
        assert process.stdout is not None
        while not any(line.startswith("export ") for line in self.lines):
            line = process.stdout.readline()
            assert line, errors.read_text()
            self.lines.append(line.rstrip())
        self.url = self.lines[0].split()[0]
        self.base_url = self.lines[1].partition("=")[2]

    def say(self, *said: str | dict[str, str], key: str = "none", headers: Any = None, **more: Any) -> Any:
        """Ask for an answer with OpenAI's own client. Texts are the user's."""
        messages: Any = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
        client = openai.OpenAI(base_url=self.base_url, api_key=key, max_retries=0, default_headers=headers)
        return client.chat.completions.with_raw_response.create(**{"model": "served", "messages": messages, **more})

    @property
    def told(self) -> str:
        """Everything that it says at its start: the last line says how to stop it."""
        until(lambda: "stop with Ctrl-C" in self._errors.read_text(), self._errors.read_text)
        return self._errors.read_text()

    def remembered(self, user: str) -> list[str]:
        """What is kept of a user, once it has heard what was said so far."""

        def heard() -> Any:
            answer = CLIENT.get(f"{self.url}/memory", params={"user": user}).raise_for_status().json()
            return None if answer["waiting"] else answer

        return [item["text"] for item in until(heard)["items"]]


@contextmanager
def started(folder: Path, *options: str, **environment: str) -> Iterator[Alone]:
    """`agentfw serve` in a folder. It is killed at the end."""
    errors = folder / "errors"
    whole = {**{name: value for name, value in os.environ.items() if name not in OF_PROVIDERS}, **environment}
    command = [sys.executable, "-m", "agentfw", "serve", "--port", "0", *options]
    with errors.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, env=whole, stdout=subprocess.PIPE, stderr=file, text=True)
        try:
            yield Alone(process, errors)
        finally:
            process.kill()
            process.communicate()


def wordy(completions: list[str], **columns: object) -> list[float]:
    return [float(len(text) % 7) for text in completions]


Refused = Callable[..., str]


@pytest.fixture
def refused(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> Refused:
    def start(*options: str, **environment: str) -> str:
        for name in OF_PROVIDERS:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        answer = agentfw("serve", "--port", "0", *options)
        assert answer.code == 2
        return answer.err

    return start


CARD = "My card is 4111 1111 1111 1111. I live in Ghent."
NOTED = {"role": "assistant", "content": "Noted."}


def test_it_finds_the_provider_and_goes_on_after_a_kill_with_what_it_remembers(tmp_path: Path) -> None:
    with serving(completion("Noted.")) as (address, server):
        environment = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "sk-provider"}
        with started(tmp_path, **environment) as gateway:
            first = gateway.say("I live in Rome.")
            assert gateway.remembered("you")
            begun, line = gateway.told, gateway.lines[0]
        with started(tmp_path, **environment) as gateway:
            second = gateway.say("I live in Rome.", NOTED, "Where do I live?")
            gateway.say("Where do I live?")
            again = gateway.told
            gateway.process.send_signal(signal.SIGINT)
            code = gateway.process.wait(PATIENCE)

    assert "2 models (served, other)" in line
    assert 'otherwise "you"' in begun
    assert "memory: 1 user, 1 item" in again
    assert "record: 1 session," in again
    assert first.headers["x-agentfw-session"] == second.headers["x-agentfw-session"]
    assert "I live in Rome" in str(server.bodies[-1]["messages"][0]), "a new conversation is told what is remembered"
    assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-provider"}
    assert (code, "2 sessions kept in runs/" in gateway.told) == (0, True)


def test_a_new_record_has_what_was_rated_and_ended_as_it_was_said_and_masked_if_that_was_asked_for(
    agentfw: Agentfw, tmp_path: Path
) -> None:
    def typed(*words: str) -> str:
        answer = agentfw(*words)
        return answer.out + answer.err

    with served(tmp_path / "runs", policy="scripted", assignments=['policy.replies=["Earlier."]']) as earlier:
        earlier.ask("earlier", "Hello.").raise_for_status()
    with (
        serving(completion("Noted.")) as (address, server),
        started(tmp_path, "--new", "--mask", OPENAI_BASE_URL=address) as gateway,
    ):
        begun = gateway.told
        answer = gateway.say("I only drink rooibos tea.")
        session, url = answer.headers["x-agentfw-session"], ("--url", gateway.url)
        heard = gateway.remembered("you")
        going, refused_report = typed("runs", "list"), typed("report", "last")
        slips = typed("feedback", session, "god", *url), typed("feedback", "tea", "good", *url)
        typed("feedback", session, "good", "--words", "Keep it brief from now on.", "--end", *url)
        kept = CLIENT.get(f"{gateway.url}/memory").json()
        until(lambda: session in CLIENT.get(f"{gateway.url}/view/").text)
        page = CLIENT.get(gateway.url).text
        later = gateway.say("Which tea, and how do I make it? Keep it brief from now on.")
        typed("feedback", later.headers["x-agentfw-session"], "--end", *url)
        ended = typed("runs", "show", "last")
        gateway.say(CARD)
        with_card = gateway.remembered("you")
        figures = CLIENT.get(f"{gateway.url}/metrics").text

    assert "record: 0 sessions," in begun
    assert heard == ["I only drink rooibos tea."]
    assert {item["text"] for item in kept["items"]} == {"I only drink rooibos tea.", "Keep it brief from now on."}
    assert kept["user"] == "you", "who names nobody on a machine of one's own"
    assert "running, 0 sessions ended" in going
    assert "has ended yet" in refused_report
    assert 'did you mean "good"' in slips[0]
    assert session in slips[1]
    assert 'data-user="you" data-remembers="yes"' in page
    assert "recalled in 1 of 2 turns" in ended
    assert server.bodies[-1]["messages"][-1]["content"] == CARD, "the model reads it"
    assert "I live in Ghent." in with_card
    assert not any("4111" in text for text in with_card)
    assert 'agentfw_masked_total{kind="card"} 1.0' in figures
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"4111 1111" in file.read_bytes()] == []
    assert any(re.search(rb'"did": ?"masked"', file.read_bytes()) for file in files)


def test_a_provider_that_does_not_answer_costs_no_start_and_a_second_gateway_says_who_has_the_record(
    refused: Refused, tmp_path: Path
) -> None:
    address = "http://127.0.0.1:9/v1"
    with started(tmp_path, "--memory", "none", OPENAI_BASE_URL=address) as gateway:
        second = refused("--memory", "none", "--drain", "0.1", OPENAI_BASE_URL=address)

    assert "can't be reached" in gateway.lines[0]
    assert f"is in use by process {gateway.process.pid}" in second
    assert "agentfw serve --new" in second


def test_without_a_key_of_its_own_it_passes_on_the_programs(tmp_path: Path) -> None:
    anthropic = pytest.importorskip("anthropic")  # here, because it takes seconds
    messages = {"type": "message", "role": "assistant", "model": "served", "stop_reason": "end_turn"}
    reply = {**messages, "id": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}

    def answer(body: dict[str, object]) -> object:
        if body.get("max_tokens") == 1:
            return refusal(401, "the key sk-of-eve-which-is-wrong is unknown")
        return completion("Noted.")

    with (
        serving(answer) as (address, server),  # type: ignore[arg-type]
        serving(completion("Noted.", top=reply), apis=("messages",)) as (other, native),
    ):
        environment = {"OPENAI_BASE_URL": address, "ANTHROPIC_BASE_URL": other.removesuffix("/v1")}
        with started(tmp_path, "--memory", "none", **environment) as gateway:
            said: Any = [{"role": "user", "content": "hello"}]
            gateway.say("hello", key="sk-of-ada-which-is-right")
            with pytest.raises(openai.AuthenticationError):
                gateway.say("hello", key="sk-of-eve-which-is-wrong", max_tokens=1)
            anthropic.Anthropic(base_url=gateway.url, auth_token="oauth-of-ada-which-is-right").messages.create(
                model="claude", messages=said, max_tokens=9, extra_headers={"anthropic-beta": "oauth-2025-04-20"}
            )
            told = gateway.told

    assert "the program's key is passed on" in told
    assert [headers["authorization"] for headers in server.headers] == [
        "Bearer sk-of-ada-which-is-right",
        "Bearer sk-of-eve-which-is-wrong",
    ]
    assert native.headers[-1]["authorization"] == "Bearer oauth-of-ada-which-is-right"
    assert "x-api-key" not in native.headers[-1]
    assert native.headers[-1]["anthropic-beta"] == "oauth-2025-04-20"
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for key in (b"sk-of-ada-which-is-right", b"oauth-of-ada-which-is-right", b"sk-of-eve-which-is-wrong"):
        assert key not in kept


def test_with_keys_of_its_own_a_program_sends_both(tmp_path: Path) -> None:
    with serving(completion("Noted.")) as (address, server):
        environment = {"OPENAI_BASE_URL": address, "AGENTFW_KEY": "key-of-the-gateway"}
        with started(tmp_path, "--memory", "none", "--upstream-key", "client", **environment) as gateway:
            both = {"x-agentfw-key": "key-of-the-gateway"}
            gateway.say("hello", key="sk-of-ada-which-is-right", headers=both)
            with pytest.raises(openai.AuthenticationError, match="x-agentfw-key"):
                gateway.say("hello", key="key-of-the-gateway")

    [headers] = server.headers
    assert headers["authorization"] == "Bearer sk-of-ada-which-is-right"
    assert "x-agentfw-key" not in headers


@pytest.mark.nightly
def test_a_model_is_served_by_its_name_whatever_provider_there_is(tmp_path: Path, small_model: Path) -> None:
    with started(
        tmp_path, "--model", str(small_model), "--memory", "none", OPENAI_BASE_URL="http://[::1]/v1"
    ) as gateway:
        answer = gateway.say("hello", model=small_model.name, max_tokens=4).parse()
        names = CLIENT.get(f"{gateway.url}/v1/models").text

    assert small_model.name in names
    assert answer.usage.completion_tokens


@pytest.mark.nightly
def test_a_trained_model_is_told_with_its_run_and_version_and_each_answer_names_it(
    tmp_path: Path, small_model: Path
) -> None:
    pytest.importorskip("peft")
    trained = train(
        tasks=[{"prompt": f"What is {n} + 3?"} for n in range(20)],
        model=str(small_model),
        reward=wordy,
        updates=1,
        settings={"tasks": 2, "samples": 2, "evaluation.tasks": 1, "sampling.max_tokens": 8},
        runs=tmp_path / "runs",
    )
    with started(tmp_path, "--policy", "last", "--memory", "none") as gateway:
        line = gateway.lines[0]
        whole, streamed = (gateway.say("hello", model="agentfw", max_tokens=4, stream=one) for one in (False, True))

    version = whole.headers["x-agentfw-version"]
    assert version.endswith("@1")
    assert streamed.headers["x-agentfw-version"] == version
    assert f"version {version} of {trained.path.name}" in line


@pytest.mark.parametrize(
    ("options", "environment", "words"),
    [
        ((), {}, "export OPENAI_BASE_URL="),
        (("--model", "any", "--also", "fast"), {}, "write --also NAME=POLICY"),
        (
            ("--sessions", "shared.db", "--set", "budget.tokens=9"),
            {"OPENAI_BASE_URL": "http://[::1]/v1"},
            "use hook.budget.run_tokens",
        ),
        (("--model", "nowhere"), {"OPENAI_BASE_URL": "http://[::1]/v1"}, "there is no model folder nowhere"),
        ((), {"OPENAI_BASE_URL": "https://your-provider.example/v1"}, "is a placeholder"),
        (("--port", "8765"), {"OPENAI_BASE_URL": "http://127.0.0.1:8765/v1"}, "is the address of this gateway itself"),
        (("--host", "0.0.0.0"), {"OPENAI_BASE_URL": "http://[::1]/v1", "AGENTFW_KEY": "secret"}, "is easy to guess"),
        (("--host", "0.0.0.0"), {"OPENAI_BASE_URL": "http://[::1]/v1"}, "so a key is required"),
        (
            ("--remember", "model"),
            {"OPENAI_BASE_URL": "http://[::1]/v1"},
            "needs the memory skillgraph, and a provider",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_do(
    refused: Refused, options: tuple[str, ...], environment: dict[str, str], words: str
) -> None:
    assert words in refused(*options, "--memory", "none", **environment)


def test_the_providers_model_writes_down_what_users_say_and_its_tokens_are_recorded(
    agentfw: Agentfw, tmp_path: Path
) -> None:
    decided = [{"action": "ADD", "text": "Lives in Rome", "evidence": "I moved to Rome"}]

    def answer(body: dict[str, object]) -> Reply:
        asks_for_decisions = "response_format" in body
        return completion(json.dumps({"messages": [decided]}) if asks_for_decisions else "Noted.")

    with serving(answer) as (address, server):
        environment = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "sk-provider"}
        with started(tmp_path, "--remember", "model", **environment) as gateway:
            for text in ("so I moved to Rome last week", "And now something else."):
                gateway.say(text, model="other")
            remembered, told = gateway.remembered("you"), gateway.told
            record = next((tmp_path / "runs").glob("*/heard.jsonl")).read_text()
        spent = agentfw("serve", "usage", "--json").json

    asked = [body for body in server.bodies if "response_format" in body]
    took = [json.loads(line).get("took") for line in record.splitlines()]
    assert remembered == ["And now something else.", "Lives in Rome"] or remembered == ["Lives in Rome"]
    assert [body["model"] for body in asked] == ["served", "served"]
    assert took == [{"writer_tokens": 14}, {"writer_tokens": 14, "writer_problems": 1}]  # nobody spoke of Rome again
    assert {row["name"]: row["tokens"] for row in spent["rows"]}["served"] >= 28
    assert address in told
