"""Answers are rated by keys, trained on, and asked for again of the new version, all on pages of `agentfw view`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from serving_gateways import CLIENT

QUESTIONS = [f"What is {number} + 5?" for number in range(12)]


@contextmanager
def process(*words: str) -> Iterator[dict[str, Any]]:
    """An agentfw command that keeps serving. Gives what it says of itself at the start."""
    command = [sys.executable, "-m", "agentfw", *words, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            said = ""
            while not said.rstrip().endswith("}"):
                line = running.stdout.readline()
                assert line, said
                said += line
            yield json.loads(said)
        finally:
            running.terminate()


@pytest.mark.nightly
def test_what_is_rated_by_keys_is_trained_on_and_the_new_version_answers_beside_the_old_one(
    tmp_path: Path, chromium: Callable[..., Any]
) -> None:
    pytest.importorskip("torch")
    runs = str(tmp_path / "runs")
    served = ("--policy", "tiny", "--set", "policy.model=tiny-sums", "--memory", "none", "--runs", runs)
    with process("serve", *served) as gateway:
        for number, question in enumerate(QUESTIONS):
            asked = {"role": "user", "content": question}
            body = {"model": "agentfw", "max_tokens": 24, "temperature": 0, "messages": [asked]}
            url = f"{gateway['url']}/s/sum{number}/v1/chat/completions"
            CLIENT.post(url, json=body).raise_for_status()
    browser = chromium()

    def read(selector: str) -> str:
        found: str = browser.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        return found

    def start(button: str) -> None:
        """Press a button that starts a command, and wait for a link to what came of it."""
        browser.follow(button)
        browser.wait("document.querySelector('#started .train').innerText.match(/^(running|done|failed)/)")
        browser.wait("!document.querySelector('#started .train').innerText.startsWith('running')")
        assert read("#started .train").startswith("done"), read("#started")

    with process("view", "--allow-start", "--runs", runs) as view:
        browser.open(f"{view['url']}rate?sort=began&order=up")
        for number, _ in enumerate(QUESTIONS):
            browser.press("c")
            browser.type(f"{number + 5}")
            browser.follow(".judge.text button")
            browser.press_to("1")
        assert "12 rated" in read(".train")

        start("form[action$='/start'] button")
        browser.follow("#started a")
        training = read("h1").split()[0]
        assert "from-feedback" in training

        browser.open(f"{view['url']}?text={QUESTIONS[3].replace(' ', '+').replace('++', '')}&user=")
        browser.follow(".episodes td[data-label=episode] > a[href*=sessions]")
        before = read("#turn-1 .message.assistant")
        assert QUESTIONS[3] in read("#turn-1 .message.user")
        browser.evaluate("document.querySelector('#again').open = true")
        browser.evaluate(f"document.querySelector('#again [name=policy]').value = {json.dumps(training)}")
        start("#again button")
        browser.follow("#started a")
        old, new = (read(f"#turn-1 .side:nth-of-type({side})") for side in (1, 2))

    assert QUESTIONS[3] in old
    assert QUESTIONS[3] in new
    assert before.removeprefix("assistant").strip() in old
    assert "@10" in read(".sides.heads > div:nth-of-type(2)")
    assert [one for one in browser.problems if not one.startswith(view["url"])] == []
