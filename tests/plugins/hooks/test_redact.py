"""What is a secret by its form is not in the record, and the model was told all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw.hookspecs import hookimpl
from agentfw.testing import fresh_host
from agentfw_plugins.hooks.redact import Redact, RedactSettings

SECRETS = [
    "sk-proj-abcdEFGH1234ijklMNOP5678",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "AKIAIOSFODNN7EXAMPLE",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "zX9kQ2mVb7RtY4wLp8NsJ3hGd6FcA1eU",
]
HARMLESS = [
    "4111 1111 1111 1112",  # no check digit of a card
    "2026-11-28-inbox-4da23a46",
    "/home/ada/projects/website/templates/index.html",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",  # a commit
    "my password is not something that I tell",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_known_forms_are_struck(secret: str) -> None:
    struck = Redact(RedactSettings.model_validate({})).struck(f"it is {secret}, keep it")

    assert secret not in struck
    assert "[masked: " in struck
    assert struck.endswith(", keep it")


@pytest.mark.parametrize("text", HARMLESS[:-1])
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert Redact(RedactSettings.model_validate({})).struck(text) == text


def test_a_run_has_them_neither_in_its_record_nor_in_files_beside_it(
    agentfw: Agentfw, mailing: tuple[str, ...], tmp_path: Path
) -> None:
    done = agentfw(*mailing, "--hook", "redact")

    assert done.code == 0, done.err
    assert (tmp_path / "sent.txt").exists()
    files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
    assert [file.name for file in files if b"4111 1111" in file.read_bytes()] == []
    assert any("[masked: card]" in file.read_text("utf-8") for file in files if file.name == "episodes.jsonl")


def test_what_another_hook_adds_is_redacted_too() -> None:
    class Adding:
        @hookimpl
        def agentfw_record(self, record: dict[str, object]) -> dict[str, object]:
            return {**record, "profile": {"card": "4111 1111 1111 1111"}}

    host = fresh_host(Adding(), builtins=True)
    from agentfw import Task
    from agentfw.runs import parse_spec
    from agentfw.testing import sample_episode

    spec = parse_spec({"environment": "inbox", "policy": "scripted", "hooks": ["redact"]})
    hooks = host.hooks_of_run(spec.hooks, 60.0)

    decided = hooks.decide_now("agentfw_record", run=None, record=sample_episode(Task(0, 7)).copied().to_record())

    assert decided is not None
    assert decided.answer["profile"] == {"card": "[masked: card]"}
