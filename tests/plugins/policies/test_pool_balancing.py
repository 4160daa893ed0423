"""Which replica a request of a pool gets, and how requests wait."""

from __future__ import annotations

import asyncio

import pytest
from asynchronous import asynchronous

from agentfw.errors import EndpointError
from agentfw_plugins.policies.pool.pool_balancing import Balancer, Place


def balancer(*, replicas: int = 3, in_flight: int = 2) -> Balancer:
    made = Balancer(in_flight)
    for number in range(replicas):
        made.join(number)
    return made


async def taken(pool: Balancer, count: int) -> list[Place]:
    return [await pool.take(f"task {number}") for number in range(count)]


@asynchronous
async def test_least_fills_the_replica_with_the_fewest_requests() -> None:
    pool = balancer()
    places = await taken(pool, 5)
    pool.give_back(places[1])

    assert [place.replica for place in places] == [0, 1, 2, 0, 1]
    assert (await pool.take("another")).replica == 1


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
async def test_a_replica_that_joins_takes_up_what_waits() -> None:
    pool = balancer(replicas=0, in_flight=2)
    waiting = [asyncio.create_task(pool.take("task")) for _ in range(2)]
    await asyncio.sleep(0)
    pool.join(7)

    assert [place.replica for place in await asyncio.gather(*waiting)] == [7, 7]


@asynchronous
async def test_when_no_replica_will_come_back_the_requests_fail_with_the_reason() -> None:
    pool = balancer(replicas=0)
    waiting = asyncio.create_task(pool.take("task"))
    await asyncio.sleep(0)
    pool.fail(EndpointError("all replicas died"))

    for request in (waiting, pool.take("later")):
        with pytest.raises(EndpointError, match="all replicas died"):
            await request


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
