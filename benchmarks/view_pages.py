"""How quick `agentfw view` is: its index and pages over many episodes, and how soon it shows what a training does.

    python benchmarks/view_pages.py                                    # 100,000 sessions
    python benchmarks/view_pages.py --live 200                         # a training of 200 updates, in Chromium

The recording is a help desk whose users ask for one thing each, over the Python API. 500 of its sessions are played,
and more have the same words under other numbers. What it looks up fails for one user.

Of each page the median of 7 requests is told, in seconds and in CPU seconds, with its size. `live` is the time from
the moment that an update is in `updates.jsonl` until the page of the run counts it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw import Generation, Message, Policy, Request
from agentfw.episode import Call
from agentfw.request import Action
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_benchmarks import AGENTFW, Options, tell
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index

PLAYED = 500
ASKED = {
    "booking": "Please move my booking {} to Friday.",
    "invoice": "I need the invoice for booking {}.",
    "refund": "When do I get the refund for booking {}?",
    "wifi": "What is the wifi password? I'm in booking {}.",
}
USERS = ("ana", "bo", "cem", "dora", "emil", "fay", "gus", "hana", "ivo", "jo")
FIND = Action("find_booking", "Find a booking", {"type": "object", "properties": {"number": {"type": "integer"}}})
MEMORY = '''
from agentfw import Memory
from agentfw.memory import Recollection

FACTS = {"wifi": "The wifi password is on the key card.", "refund": "A refund takes 30 days."}


class House(Memory):
    """What the house has told its desk."""

    async def recall(self, query):
        return [Recollection(text, 0.8, {"topic": name}) for name, text in FACTS.items() if name in query.text]
'''


class Desk(Policy):
    """Looks up the booking, and answers by what it finds and remembers."""

    version = "desk-v1"

    async def generate(self, request: Request) -> Generation:
        asked = next(one.content for one in reversed(request.messages) if one.role == "user")
        number = "".join(filter(str.isdigit, asked))
        if request.messages[-1].role == "user" and ("booking" in asked and "refund" not in asked):
            return self._said("", Call(FIND.name, {"number": int(number)}, "c1"))
        if "Error" in request.messages[-1].content:
            return self._said(f"I'm sorry, there is no booking {number}.")
        if "refund" in asked:
            return self._said("A refund takes 30 days, so please be patient.")
        if "wifi" in asked:
            return self._said("You find the password on your key card.")
        if "invoice" in asked:
            return self._said(f"The invoice for {number} is in your mail.")
        return self._said(f"Booking {number} is on Friday now.")

    def _said(self, text: str, *calls: Call) -> Generation:
        return Generation(text, calls, version=self.version, count=len(text.split()))


async def record(runs: Path, sessions: int) -> Path:
    """Record the sessions of the desk. Returns the folder of the run."""
    memory = runs / "house.py"
    runs.mkdir(parents=True, exist_ok=True)
    memory.write_text(MEMORY, "utf-8")
    spec = {
        "environment": "sessions",
        "policy": {"name": "scripted", "settings": {"replies": [""]}},
        "memories": [str(memory)],
        "rewards": ["feedback"],
    }
    async with LiveRun.create(parse_spec(spec), fresh_host(builtins=True), runs) as live:
        for number in range(sessions):
            kind, user = list(ASKED)[number % len(ASKED)], USERS[number // 4 % len(USERS)]
            session = live.begin(f"desk-{number}", user=user)
            said = [Message("user", ASKED[kind].format(4000 + number))]
            reply = await session.answer(said, [FIND], user=user, policy=Desk())
            if reply.turn.calls:
                result = f"Booking {4000 + number}, room {number % 40}, two nights"
                if user == "dora":
                    result = f"Error: bookings of this house begin with D, and {4000 + number} doesn't"
                said += [reply.message, Message("tool", result, answers="c1")]
                reply = await session.answer(said, [FIND], user=user, policy=Desk())
            if number % 3 == 0:
                session.feedback(-1.0 if "sorry" in reply.turn.text else 1.0, words="It took three days!")
            await live.keep(session)
            await live.conclude(session)
        return live.folder.path


def multiplied(run: Path, episodes: int) -> None:
    """Put more episodes behind those of a run: the same words, and numbers, times and names of their own."""
    for name in ("episodes", "metrics"):
        lines = (run / f"{name}.jsonl").read_text("utf-8").splitlines()
        with (run / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            for number in range(len(lines), episodes):
                record = json.loads(lines[number % len(lines)])
                if name == "metrics":
                    record["episode"] = f"{number:05d}-0"
                else:
                    record["task"] |= {"index": number, "query": f"desk-{number}"}
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
    (run / "turns.jsonl").unlink()


def pages(episodes: int) -> dict[str, Any]:
    """What the index costs, and each page."""
    from starlette.testclient import TestClient

    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        run = asyncio.run(record(runs, min(episodes, PLAYED)))
        multiplied(run, episodes)
        index, began = Index(runs), time.process_time()
        index.refresh()
        cost = time.process_time() - began
        host = fresh_host(builtins=True)
        rows = {}
        with TestClient(Viewer(index, host).app, base_url="http://127.0.0.1") as client:
            for name, address in {
                "first page": "/",
                "search for a word": "/?text=wifi",
                "for three words": "/?text=refund+30+days",
                "for a phrase": '/?text="room 7"',
                "failures of a user": "/?failure=refused&user=dora",
                "page of the run": f"/run/{run.name}",
                "an episode": f"/episode/{run.name}/{episodes - 1:05d}-0",
                "next to rate": "/rate",
                "comparison": "/runs",
            }.items():
                client.get(address)
                spans = []
                for _ in range(7):
                    wall, spent = time.perf_counter(), time.process_time()
                    answer = client.get(address)
                    spans.append((time.perf_counter() - wall, time.process_time() - spent))
                assert answer.status_code == 200, address
                seconds, cpu = (round(statistics.median(values), 3) for values in zip(*spans, strict=True))
                rows[name] = {"seconds": seconds, "cpu": cpu, "kB": round(len(answer.content) / 1000)}
        return {
            "episodes": episodes,
            "index CPU seconds per 1,000": round(1000 * cost / episodes, 3),
            "rows": rows,
        }


def live(updates: int) -> dict[str, Any]:
    """A training of the smallest model, followed on its page in Chromium."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        runs, tasks, reward = (Path(folder) / name for name in ("runs", "sums.jsonl", "rewards.py"))
        runs.mkdir()
        sums = [{"prompt": f"What is {number} + 5?", "answer": str(number + 5)} for number in range(40)]
        tasks.write_text("".join(json.dumps(one) + "\n" for one in sums), "utf-8")
        reward.write_text(
            "def fives(completions, **columns):\n    return [float(one.count('5')) for one in completions]\n"
        )
        small = ("tasks=2", "samples=2", "sampling.max_tokens=4")
        words = ["train", str(tasks), "--model", "tiny-sums", "--reward", f"{reward}:fives", "--updates", str(updates)]
        words += [word for setting in small for word in ("--set", setting)]
        view, training = (
            subprocess.Popen([*AGENTFW, *some, "--runs", str(runs)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for some in (["view", "--port", "0", "--json"], words)
        )
        try:
            assert view.stdout is not None
            url = json.loads(b"".join(view.stdout.readline() for _ in range(3)))["url"]
            while (file := next(runs.glob("*/updates.jsonl"), None)) is None:
                assert training.poll() is None, "the training has ended"
                time.sleep(0.05)
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"{url}run/{file.parent.name}")
            shown = "() => Number((document.querySelector('.chip.live')?.innerText ?? '0').match(/\\d+/)[0])"
            written, seen, delays = 0, int(page.evaluate(shown)), list[float]()
            times = dict[int, float]()
            while training.poll() is None:
                while written < file.read_bytes().count(b"\n"):
                    written += 1
                    times[written] = time.monotonic()
                now = int(page.evaluate(shown))
                if now > seen:
                    delays += [time.monotonic() - times[one] for one in range(seen + 1, now + 1) if one in times]
                    seen = now
                page.wait_for_timeout(20)
            browser.close()
        finally:
            for process in (view, training):
                process.terminate()
                process.wait()
        return {
            "updates": updates,
            "seen": len(delays),
            "median delay": round(statistics.median(delays), 2),
            "95th percentile": round(sorted(delays)[int(0.95 * len(delays))], 2),
            "longest": round(max(delays), 2),
        }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, episodes=100_000, live=(0, "updates of a training to follow instead")).parse_args(
        arguments
    )
    return tell(live(options.live) if options.live else pages(options.episodes), options.json)


if __name__ == "__main__":
    main()
