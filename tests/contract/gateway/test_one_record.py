"""A long history, a full disk, replicas that die for good, and keys that hold at all of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serving_gateways import CLIENT, EARS, TOKENS, Gateway, begun, said, shared_session, told
from waiting import free_port, until

from .conftest import Start, command, crash, never_alive_again, shown, written_as_heard

resource = pytest.importorskip("resource", reason="limits are of another kind on Windows")
pytest.importorskip("psycopg")

SLOW_MEMORY = """
import time
from pathlib import Path
from agentfw import Memory

class Slow(Memory):
    def open(self, folder):
        while not Path("GO").exists():
            time.sleep(0.01)

    async def recall(self, query):
        return []
"""


def test_a_gateway_listens_while_it_reads_its_record(tmp_path: Path) -> None:
    go, memory, port = tmp_path / "go", tmp_path / "slow.py", free_port()
    memory.write_text(SLOW_MEMORY.replace("GO", str(go)), encoding="utf-8")
    words = ["serve", "--port", str(port), "--runs", str(tmp_path / "runs"), "--policy", str(TOKENS)]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfw", *words, "--memory", str(memory)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    gateway = Gateway(f"http://127.0.0.1:{port}", tmp_path, process.kill)

    def answered(path: str) -> httpx.Response | None:
        try:
            return gateway.request("GET", path)
        except httpx.TransportError:
            return None

    try:
        alive = until(lambda: answered("/healthz"))
        ready, asked = gateway.request("GET", "/readyz"), gateway.ask("tea", "hello")
        go.touch()
        until(lambda: gateway.request("GET", "/readyz").status_code == 200)
        said(gateway.ask("tea", "hello"))
    finally:
        process.kill()
        process.wait()

    assert alive.status_code == 200
    assert [one.status_code for one in (ready, asked)] == [503, 503]
    assert "reading its record" in ready.json()["error"]["message"]
    assert asked.headers["retry-after"] == "1"


def test_a_gateway_goes_on_by_itself_when_a_full_disk_has_room_again(tmp_path: Path) -> None:
    process = begun(tmp_path / "runs", "--policy", str(TOKENS), "--memory", str(EARS))
    gateway = Gateway(*told(process), process.kill)

    def may_write(size: int) -> None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    try:
        first = said(gateway.ask("tea", "I like tea.", user="ada"))
        until(lambda: gateway.remembered("ada"))
        may_write(100)  # no file may grow any more, as on a disk that is full
        refused = [gateway.ask("tea", "I like tea.", first, "And cake.", user="ada") for _ in range(5)]
        ended = gateway.post("/s/tea/end", {"user": "ada"})
        alive, ready = gateway.request("GET", "/healthz"), gateway.request("GET", "/readyz")
        may_write(resource.RLIM_INFINITY)
        until(lambda: gateway.request("GET", "/readyz").status_code == 200)
        second = said(gateway.ask("tea", "I like tea.", first, "And cake.", user="ada"))
        remembered = until(lambda: len(found := gateway.remembered("ada")) == 2 and found)
        beside = begun(tmp_path / "runs", "--policy", str(TOKENS), "--memory", str(EARS)).communicate(timeout=25)[1]
    finally:
        process.kill()
        _, log = process.communicate()
    again = gateway.kept("tea")

    assert shown(tmp_path / "runs") == (2, again.messages), "nor is anything shown twice"
    assert [one.status_code for one in (*refused, ended)] == [503] * 6
    assert (alive.status_code, ready.status_code) == (200, 503)
    assert [turn.text for turn in again.turns] == [first["content"], second["content"]], "each once"
    assert [one.content for one in again.messages if one.role == "user"] == ["I like tea.", "And cake."]
    assert remembered == ["I like tea.", "And cake."]
    assert f"is in use by process {process.pid}, and one process" in beside, "at once, as it wasn't told to end"
    [line] = [line for line in log.splitlines() if "can't write to" in line]
    assert re.search(r"\.jsonl: File too large \(EFBIG\)", line), line


def test_what_a_killed_gateway_was_told_is_heard_by_another(killable: Start, gateway: Start, tmp_path: Path) -> None:
    shared = str(tmp_path / "sessions.db")
    lost = killable("--policy", str(TOKENS), "--memory", str(EARS), "--sessions", shared)
    left = gateway("left", memories=[str(EARS)], limits={"shared": shared})
    first = said(lost.ask("tea", f"hear={tmp_path / 'never'}", user="ada"))
    said(lost.ask("tea", f"hear={tmp_path / 'never'}", first, "I like cake.", user="ada"))
    lost.stop()
    (tmp_path / "never").touch()
    never_alive_again(shared)

    until(lambda: len(left.remembered("ada")) == 2)
    assert left.remembered("ada")[1] == "I like cake."
    assert len(shared_session(shared, "tea").turns) == 2


def test_keys_hold_and_are_revoked_at_all_gateways(gateway: Start, shared: str, agentfw: Callable[..., object]) -> None:
    operator = ("operator" * 5,)
    limits = {"shared": shared, "keys": operator, "queue_timeout": 5.0}
    a, b = (gateway(name, limits=limits, memories=[str(EARS)]) for name in "ab")
    secret = command("serve", "keys", "add", "ada", "--sessions", shared, "--per-minute", "3")["key"]
    both = (a, b)

    def all_answer(status: int) -> bool:
        return all(one.request("GET", "/sessions", secret).status_code == status for one in both)

    until(lambda: all_answer(200))
    answers = [both[number % 2].ask("tea", f"word {number}", key=secret).status_code for number in range(4)]
    shop = command("serve", "keys", "add", "shop", "--any-user", "--sessions", shared)["key"]
    until(lambda: a.ask("order", "hello", key=shop, user="eve").status_code == 200)
    seen = [
        [row["session"] for row in a.request("GET", f"/sessions{query}", key).json()["sessions"]]
        for key, query in ((secret, ""), (shop, ""), (shop, "?user=eve"), (operator[0], ""))
    ]
    assert a.request("DELETE", "/memory", secret).status_code == 200, "whose sessions are told of it"
    assert b.post("/s/ada:tea/feedback", {"value": 1}, operator[0]).status_code == 200
    command("serve", "keys", "revoke", "ada", "--sessions", shared)
    until(lambda: all_answer(401))

    assert answers == [200, 200, 200, 429], "they count together"
    assert seen == [["tea"], [], ["order"], ["shop:order", "ada:tea"]]
    assert [one["name"] for one in command("serve", "keys", "list", "--sessions", shared)] == ["shop"]
    assert CLIENT.get(f"{a.url}/sessions", headers={"authorization": f"Bearer {operator[0]}"}).status_code == 200


def test_what_gateways_spend_is_counted_together(gateway: Start, shared: str, agentfw: Callable[..., object]) -> None:
    ledger = [f"hook.budget.ledger={shared}"]
    a, b = (gateway(name, limits={"shared": shared}, assignments=ledger) for name in "ab")
    for one in (a, b, a):
        said(one.ask("", "hello", user="ada"))

    [row] = command("serve", "usage", "--by", "user", "--sessions", shared)["rows"]
    assert (row["name"], row["requests"]) == ("ada", 3)
    assert b.request("GET", "/usage?by=user").json()["rows"] == [row]


def test_what_a_crash_may_have_taken_back_is_heard_again_and_what_waits_to_be_heard_waits_once(
    gateway: Start, postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    shared, go = postgres_database(), tmp_path / "go"
    running = gateway("one", memories=[str(EARS)], limits={"shared": shared})
    said(running.ask("tea", "I like tea.", user="ada"))

    def heard(text: str) -> int:
        log = running.folder / "heard.log"
        lines = log.read_text("utf-8").splitlines() if log.exists() else []
        return [json.loads(line)["text"] for line in lines].count(text)

    until(lambda: heard("I like tea.") == 1)
    until(lambda: written_as_heard(shared))
    crash(shared)
    until(lambda: heard("I like tea.") == 2)
    said(running.ask("cake", f"hear={go}", user="bob"))
    for number in range(2):
        crash(shared)
        said(running.ask(f"after-{number}", "I like tea.", user=f"u{number}"))
        until(lambda: running.remembered(f"u{number}"))  # noqa: B023
        time.sleep(1.5)  # it looks each second whether anything has to be heard again
    go.touch()
    until(lambda: running.remembered("bob"))

    assert heard(f"hear={go}") == 1
