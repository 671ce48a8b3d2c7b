"""The metrics: made beside the loop, at most once a second when that takes long, with a bounded number of series."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import httpx
import pytest
from prometheus_client import generate_latest

from bus.domain.delivery.breaker import BreakerState
from bus.serving import Gateway, exposition
from bus.telemetry import labels, metrics
from dispatcher.metrics import Permits, fill_permits
from tests.unit.admin.admin_world import World, problem

TAKES = 0.1
"""Seconds, a tenth of those for which a text is kept at most."""


class Renders:
    """What renders, and in which threads it was done."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(self, _: object) -> bytes:
        self.threads.append(threading.get_ident())
        return generate_latest(metrics.REGISTRY)


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> Renders:
    made = Renders()
    monkeypatch.setattr(exposition, "generate_latest", made)
    return made


@pytest.fixture
def world() -> World:
    return World()


def client(world: World) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(Gateway(world.context, world.introspection)), base_url="http://localhost"
    )


async def scraped(world: World, asking: httpx.AsyncClient, count: int = 1) -> set[bytes]:
    """Return the texts that scrapers got at once, the clock going on as far as one of ``slow`` takes."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asking.get("/metrics")) for _ in range(count)]
        await world.clock.advance(TAKES)
    return {task.result().content for task in tasks}


def slow(world: World) -> None:
    """Have a text take so long that it is kept for a second."""

    async def meter() -> Callable[[], None]:
        await world.clock.sleep(TAKES)
        return lambda: None

    world.offer(async_meters=(meter,))


async def test_many_scrapers_share_what_takes_long_and_is_made_once_a_second_in_a_thread(
    world: World, renders: Renders
) -> None:
    slow(world)
    async with client(world) as asking:
        assert len(await scraped(world, asking, 20)) == len(renders.threads) == 1
        await world.clock.advance(exposition.FRESH * 0.8)
        await scraped(world, asking)
        assert len(renders.threads) == 1
        await world.clock.advance(exposition.FRESH * 0.2)
        await scraped(world, asking)
        assert len(renders.threads) == 2
    assert threading.get_ident() not in renders.threads


async def test_what_is_made_quickly_is_as_it_is_now(world: World, renders: Renders) -> None:
    async with client(world) as asking:
        await asking.get("/metrics")
        await asking.get("/metrics")
    assert len(renders.threads) == 2


async def test_gauges_are_set_in_the_thread_and_looked_at_on_the_loop(world: World, renders: Renders) -> None:
    looked: list[int] = []

    def meter() -> Callable[[], None]:
        looked.append(threading.get_ident())
        return lambda: looked.append(threading.get_ident())

    world.offer(meters=(meter,))
    async with client(world) as asking:
        await asking.get("/metrics")
    assert looked == [threading.get_ident(), *renders.threads]


async def test_what_fails_to_render_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with client(world) as asking:
        with monkeypatch.context() as patch:
            patch.setattr(exposition, "generate_latest", lambda _: 1 / 0)
            problem(await asking.get("/metrics"), 500)
        assert (await asking.get("/metrics")).status_code == 200


async def test_with_a_key_the_metrics_are_for_who_has_it(world: World) -> None:
    world.context.settings.metrics_key = "a-key-of-scrapers"
    async with client(world) as asking:
        for shown in ({}, {"authorization": "Bearer another"}, {"authorization": "a-key-of-scrapers"}):
            answer = await asking.get("/metrics", headers=shown)
            problem(answer, 401)
            assert answer.headers["www-authenticate"] == "Bearer"
        found = await asking.get("/metrics", headers={"authorization": "Bearer a-key-of-scrapers"})
        assert (found.status_code, "bus_degraded" in found.text) == (200, True)
        assert (await asking.get("/healthz")).status_code == 200


def test_the_first_names_have_series_of_their_own_and_the_others_share_one() -> None:
    names = labels.Names(2)
    found = [names.of("orders", name) for name in ("a", "b", "c", "a", "d")]
    other = (labels.OTHER, labels.OTHER)
    assert found == [("orders", "a"), ("orders", "b"), other, ("orders", "a"), other]


def test_what_shares_a_series_is_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "SUBSCRIPTIONS", labels.Names(1))
    for gauge in metrics.SAMPLED:
        gauge.clear()
    states = (BreakerState.CLOSED, BreakerState.OPEN, BreakerState.CLOSED)
    fill_permits([Permits(("orders", name), 1, 4, state) for name, state in zip("abc", states, strict=True)])
    text = generate_latest(metrics.REGISTRY).decode()
    other = '{subscription="(other)/(other)"}'
    for line in (f"bus_permits_in_use{other} 2.0", f"bus_permits_max{other} 8.0", f"bus_breaker_state{other} 2.0"):
        assert line in text
    assert 'bus_permits_max{subscription="orders/a"} 4.0' in text
    assert 'subscription="orders/b"' not in text.partition("bus_permits_max")[2].partition("# HELP")[0]
