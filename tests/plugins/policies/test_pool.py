"""What a pool of real processes does when its replicas die, hang, refuse or serve something else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from asynchronous import asynchronous

from agentfw import Host, Message, Request, Task
from agentfw.errors import EndpointError, RequestRefusedError, SettingsError, UsageError
from agentfw.request import Sampling
from agentfw_plugins.policies.pool_policy import Balancer, PoolPolicy, PoolSettings

# A policy that does what the message says, once for all replicas where it says "once".
FRAGILE = """
import asyncio, os, time
from pathlib import Path
from agentfw import Component, Generation, Policy, Settings, hookimpl
from agentfw.errors import RequestRefusedError, SettingsError

class FragileSettings(Settings):
    folder: str
    fails_to_start: bool = False

class FragilePolicy(Policy):
    def __init__(self, settings):
        self.folder, self.version = Path(settings.folder), "base"
        if settings.fails_to_start:
            raise SettingsError("the weights are missing", fix="download them")
        number = 0
        while True:
            try:
                (self.folder / f"started {number}").touch(exist_ok=False)
                break
            except FileExistsError:
                number += 1
        self.number = number
        while (self.folder / f"waits {number}").exists():
            time.sleep(0.01)

    async def generate(self, request):
        said = request.messages[-1].content
        if said == "refuse":
            raise RequestRefusedError("too long", fix="shorten it")
        if said.endswith("once") or said.endswith("always"):
            flag = self.folder / said
            if said.endswith("always") or not flag.exists():
                flag.touch()
                if said.startswith("die"):
                    os._exit(1)
                await asyncio.sleep(1000)
        return Generation(f"{said} by {self.number}", count=1, version=self.version)

    async def publish(self, adapter, version):
        if version == "die" and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os._exit(1)
        self.version = version
        with (self.folder / "published").open("a") as file:
            file.write(f"{self.number} {version}\\n")

    async def logprobs(self, prompt_ids, token_ids):
        if (self.folder / f"broken {self.number}").exists():
            (self.folder / f"broken {self.number}").unlink()
            raise OSError("the weights are torn")
        wrong = (self.folder / "other weights").exists() and self.number >= 2
        return [-1.0 - wrong for _ in token_ids]

    async def rest(self):
        (self.folder / f"rests {self.number}").touch()

    async def wake(self):
        (self.folder / f"woke {self.number}").touch()

@hookimpl
def agentfw_policies():
    return [Component("fragile", "agentfw_fragile:FragilePolicy", "", settings="agentfw_fragile:FragileSettings")]
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with the plugin above, which is installed where replicas find it too."""
    site = tmp_path / "site"
    (site / "agentfw_fragile-1.0.dist-info").mkdir(parents=True)
    (site / "agentfw_fragile.py").write_text(FRAGILE, encoding="utf-8")
    (site / "agentfw_fragile-1.0.dist-info" / "METADATA").write_text("Name: agentfw-fragile\nVersion: 1.0\n")
    (site / "agentfw_fragile-1.0.dist-info" / "entry_points.txt").write_text("[agentfw]\nfragile = agentfw_fragile\n")
    monkeypatch.syspath_prepend(str(site))
    return Host.load()


@asynccontextmanager
async def opened(host: Host, **settings: Any) -> AsyncIterator[PoolPolicy]:
    policy = PoolPolicy(PoolSettings.model_validate(settings), host)
    try:
        yield policy
    finally:
        await policy.close()


def fragile(folder: Path, **settings: Any) -> dict[str, Any]:
    inner = {"folder": str(folder), "fails_to_start": settings.pop("fails_to_start", False)}
    return {"policy": {"name": "fragile", "settings": inner}, **settings}


def ask(text: str, index: int = 0) -> Request:
    return Request([Message("user", text)], task=Task(index, 7), sampling=Sampling(1.0, None, 24, 7))


@asynchronous
async def test_answers_are_equal_to_those_of_one_process(host: Host) -> None:
    async with opened(host, policy="tiny") as pool:
        requests = [ask(f"hello {number}", number) for number in range(12)]
        alone = host.create("policy", "tiny", {})

        together = await asyncio.gather(*map(pool.generate, requests))

        assert together == list(await asyncio.gather(*map(alone.generate, requests)))  # type: ignore[attr-defined]
        assert pool.metrics()["pool_requests"] == 12


@asynchronous
async def test_replicas_that_die_are_replaced_with_the_newest_version_and_sleep_and_wake_like_the_others(
    host: Host, tmp_path: Path
) -> None:
    async with opened(host, **fragile(tmp_path, check_every=0.1)) as pool:
        await pool.publish(tmp_path, "policy@1")

        answer = await pool.generate(ask("die once"))

        assert answer.version == "policy@1"
        await until(lambda: len(pool.replicas()) == 2)
        assert pool.metrics()["pool_restarts"] == 1
        os.kill(await pool._replicas[0].ask("alive"), signal.SIGKILL)  # it is found while nobody asks
        await until(lambda: pool.metrics()["pool_restarts"] == 1)
        await until(lambda: len(pool.replicas()) == 2)
        published = (tmp_path / "published").read_text().splitlines()
        assert sorted(published) == [f"{number} policy@1" for number in range(4)]

        await pool.rest()
        await pool.wake()
        answers = await asyncio.gather(*(pool.generate(ask("hello", number)) for number in range(8)))

        assert {answer.version for answer in answers} == {"policy@1"}
        assert (len(list(tmp_path.glob("rests *"))), len(list(tmp_path.glob("woke *")))) == (2, 2)


@asynchronous
async def test_replicas_that_die_in_publishing_or_hang_are_replaced_and_no_request_gets_an_older_version(
    host: Host, tmp_path: Path
) -> None:
    async with opened(host, **fragile(tmp_path, patience=1.0)) as pool:
        await pool.publish(tmp_path, "die")
        answers = await asyncio.gather(*(pool.generate(ask("hello", number)) for number in range(20)))
        hung = await pool.generate(ask("hang once"))
        await until(lambda: len(pool.replicas()) == 2)
        lost = pool.metrics()["pool_restarts"]
        with pytest.raises(RequestRefusedError, match="too long"):
            await pool.generate(ask("refuse"))

        assert {answer.version for answer in (*answers, hung)} == {"die"}
        assert hung.text.startswith("hang once by")
        assert (lost, len(pool.replicas()), pool.metrics()["pool_restarts"]) == (2, 2, 0), "what is refused loses none"


@asynchronous
async def test_a_request_that_kills_every_replica_ends_with_an_error(host: Host, tmp_path: Path) -> None:
    async with opened(host, **fragile(tmp_path, restarts=1)) as pool:
        with pytest.raises(EndpointError, match=r'0 of 2 replicas of the policy "fragile" work.*exit code 1'):
            await pool.generate(ask("die always"))


@asynchronous
async def test_a_request_waits_for_the_replica_that_comes_back_while_another_one_is_lost_for_good(
    host: Host, tmp_path: Path
) -> None:
    for file in ("broken 2", "waits 3"):
        (tmp_path / file).touch()
    async with opened(host, **fragile(tmp_path, restarts=1)) as pool:
        asked = [asyncio.create_task(pool.generate(ask(f"die {number} once", number))) for number in range(2)]
        await until(lambda: not (tmp_path / "broken 2").exists())
        await asyncio.wait(asked, timeout=0.5)
        (tmp_path / "waits 3").unlink()

        assert [(await one).text for one in asked] == ["die 0 once by 3", "die 1 once by 3"]


@asynchronous
async def test_a_pool_that_cannot_start_says_what_its_replicas_said(host: Host, tmp_path: Path) -> None:
    async with opened(host, **fragile(tmp_path, replicas=1, fails_to_start=True)) as pool:
        with pytest.raises(SettingsError, match="the weights are missing") as caught:
            await pool.generate(ask("hello"))
        assert caught.value.fix == "download them"


@pytest.mark.parametrize("least", [1, 2])
@asynchronous
async def test_a_replica_that_cannot_load_its_model_gets_no_request(host: Host, tmp_path: Path, least: int) -> None:
    (tmp_path / "broken 0").touch()

    async with opened(host, **fragile(tmp_path, least_replicas=least)) as pool:
        if least == 2:
            with pytest.raises(EndpointError, match=r"1 of 2 replicas .* OSError: the weights are torn"):
                await pool.generate(ask("hello"))
            return
        answers = await asyncio.gather(*(pool.generate(ask("hello", number)) for number in range(4)))
        assert {answer.text for answer in answers} == {"hello by 1"}
        assert pool.metrics()["pool_replicas"] == 1


@asynchronous
async def test_programs_and_wrong_settings_are_refused_before_anything_starts(host: Host) -> None:
    async with opened(host, policy="random", replicas=1) as pool:
        with pytest.raises(UsageError, match='"random" is a program, and a pool runs copies of models'):
            await pool.generate(ask("hello"))
    with pytest.raises(SettingsError, match=r"policy\.policy.*mdel.*did you mean \"model\""):
        PoolPolicy(PoolSettings.model_validate({"policy": {"name": "tiny", "settings": {"mdel": "x"}}}), host)
    for wrong in ({"replicas": 0}, {"replicas": 2, "least_replicas": 3}, {"gpus": 1.5}):
        with pytest.raises(SettingsError):
            host.check_settings("policy", "pool", wrong)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.05)


# -- which replica a request gets --------------------------------------------------------------------------------------


def balancer(*, replicas: int = 3, in_flight: int = 2) -> Balancer:
    made = Balancer(in_flight)
    for number in range(replicas):
        made.join(number)
    return made


@asynchronous
async def test_the_requests_of_a_task_go_to_one_replica_while_it_has_room_until_it_has_another_version() -> None:
    pool = balancer(replicas=2, in_flight=3)
    for number in range(2):
        assert (await pool.take(f"task {number}")).replica == number

    found = [(await pool.take("task 1")).replica for _ in range(3)]
    assert found == [1, 1, 0]

    pool.leave(1)
    pool.join(1)
    assert (await pool.take("task 1")).replica == 1
    pool.forget()
    assert (await pool.take("task 0")).replica == 1


@asynchronous
async def test_requests_wait_in_order_when_all_are_busy_and_none_is_given_up() -> None:
    pool = balancer(replicas=1, in_flight=1)
    order: list[int] = []

    async def ask(number: int) -> None:
        place = await pool.take("task")
        order.append(number)
        await asyncio.sleep(0)
        pool.give_back(place)

    await asyncio.gather(*map(ask, range(20)))

    assert order == list(range(20))


@asynchronous
async def test_a_cancelled_request_passes_its_turn_on() -> None:
    pool = balancer(replicas=1, in_flight=1)
    place = await pool.take("task")
    first, second = (asyncio.create_task(pool.take("task")) for _ in range(2))
    await asyncio.sleep(0)
    pool.give_back(place)
    first.cancel()

    assert (await second).replica == 0


@asynchronous
async def test_a_request_of_a_lost_replica_does_not_count_for_the_one_in_its_place() -> None:
    pool = balancer(replicas=1, in_flight=1)
    lost = await pool.take("task")
    pool.leave(0)
    pool.join(0)
    await pool.take("task")
    pool.give_back(lost)
    third = asyncio.create_task(pool.take("task"))
    await asyncio.sleep(0.01)

    assert not third.done()
    third.cancel()
