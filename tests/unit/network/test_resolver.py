"""Memory of resolved names: stale answers, and no name that delays another."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

import pytest

from bus.network import resolver as module
from bus.network.resolver import Resolver

AGAIN = socket.gaierror(socket.EAI_AGAIN, "no name server answered")
GONE = socket.gaierror(socket.EAI_NONAME, "not found")


class Names:
    """A lookup whose answers a test sets; one that is an event is waited for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[str] = []
        self.answers: dict[str, Sequence[str] | Exception | asyncio.Event] = {}
        self.resolver = Resolver(self, ttl=10.0, clock=lambda: self.now)

    async def __call__(self, host: str, _: int) -> Sequence[str]:
        self.asked.append(host)
        if isinstance(found := self.answers[host], asyncio.Event):
            await found.wait()
            found = self.answers[host]
        if isinstance(found, Exception):
            raise found
        return found

    async def resolve(self, host: str) -> Sequence[str]:
        return await self.resolver.resolve(host, 80)


@pytest.fixture
async def names(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.01)
    made = Names()
    yield made
    await made.resolver.close()


async def test_a_host_is_asked_for_once_at_a_time_whatever_the_port(names: Names) -> None:
    names.answers["a"] = ["192.0.2.1"]
    found = await asyncio.gather(*(names.resolver.resolve("a", port) for port in range(20)))
    assert found == [["192.0.2.1"]] * 20
    assert names.asked == ["a"]


async def test_a_host_that_hangs_delays_no_other(names: Names) -> None:
    for number in range(200):
        names.answers[f"dead{number}"] = asyncio.Event()
    waiting = [asyncio.ensure_future(names.resolve(host)) for host in names.answers]
    await asyncio.sleep(0)
    names.answers["good"] = ["192.0.2.1"]
    assert await names.resolve("good") == ["192.0.2.1"]
    assert len(names.asked) == 201
    await names.resolver.close()
    assert {type(error) for error in await asyncio.gather(*waiting, return_exceptions=True)} == {OSError}


async def test_an_answer_is_asked_for_anew_once_it_is_old(names: Names) -> None:
    names.answers["a"] = ["192.0.2.1"]
    await names.resolve("a")
    names.answers["a"] = ["192.0.2.2"]
    names.now += 9.9
    assert await names.resolve("a") == ["192.0.2.1"]
    names.now += 0.1
    assert await names.resolve("a") == ["192.0.2.2"]


async def test_an_old_answer_is_used_while_no_server_answers(names: Names) -> None:
    names.answers["a"] = ["192.0.2.1"]
    await names.resolve("a")
    names.answers["a"] = AGAIN
    for _ in range(3):
        names.now += 10
        assert await names.resolve("a") == await names.resolve("a") == ["192.0.2.1"]
    assert len(names.asked) == 4, "it is asked for anew after as long as an answer is used"
    names.now += 86_400
    with pytest.raises(socket.gaierror, match="no name server answered"):
        await names.resolve("a")


async def test_an_old_answer_is_used_while_a_new_one_is_late(names: Names) -> None:
    names.answers["a"] = ["192.0.2.1"]
    await names.resolve("a")
    late = names.answers["a"] = asyncio.Event()
    names.now += 10
    assert await names.resolve("a") == ["192.0.2.1"]
    names.now += 1
    assert await names.resolve("a") == ["192.0.2.1"]
    assert len(names.asked) == 2
    names.answers["a"] = ["192.0.2.2"]
    late.set()
    await asyncio.sleep(0.01)
    assert await names.resolve("a") == ["192.0.2.2"]
    assert len(names.asked) == 2


@pytest.mark.parametrize("gone", [GONE, UnicodeError("label"), []])
async def test_a_name_that_is_gone_has_no_old_answer(names: Names, gone: Sequence[str] | Exception) -> None:
    names.answers["a"] = ["192.0.2.1"]
    await names.resolve("a")
    names.answers["a"] = gone
    names.now += 10
    for _ in range(2):
        with pytest.raises((OSError, UnicodeError)):
            await names.resolve("a")
    names.answers["a"] = AGAIN
    with pytest.raises(socket.gaierror, match="no name server"):
        await names.resolve("a")


async def test_a_lookup_without_end_is_ended(names: Names, monkeypatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", 0.01)
    names.answers["a"] = asyncio.Event()
    with pytest.raises(OSError, match="no answer for a within"):
        await names.resolve("a")


async def test_so_many_names_are_remembered_the_latest(names: Names, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MOST_NAMES", 2)
    for host in ("a", "b", "c", "b", "a"):
        names.answers[host] = ["192.0.2.1"]
        await names.resolve(host)
    assert names.asked == ["a", "b", "c", "a"]


async def test_who_leaves_does_not_end_the_lookup_for_the_others(names: Names) -> None:
    hold = names.answers["a"] = asyncio.Event()
    leaving, staying = (asyncio.ensure_future(names.resolve("a")) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    names.answers["a"] = ["192.0.2.1"]
    hold.set()
    assert await staying == ["192.0.2.1"]
    assert leaving.cancelled()
