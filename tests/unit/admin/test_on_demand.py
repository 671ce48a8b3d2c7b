"""An application is made once, for the first who asks; when that fails, the next one has it tried again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from admin.on_demand import OnDemand


class Maker:
    """Makes applications that note the scopes they are given, once it may."""

    def __init__(self) -> None:
        self.made = 0
        self.served: list[dict] = []
        self.trouble: Exception | None = None
        self.may = threading.Event()

    def __call__(self):
        assert self.may.wait(10)
        self.made += 1
        if self.trouble is not None:
            raise self.trouble

        async def app(scope, receive, send):
            self.served.append(scope)

        return app


@pytest.fixture
def maker() -> Maker:
    return Maker()


async def test_nothing_is_made_before_somebody_asks(maker: Maker) -> None:
    OnDemand(maker)
    await asyncio.sleep(0)
    assert maker.made == 0


async def test_all_who_ask_meanwhile_get_the_same(maker: Maker) -> None:
    app = OnDemand(maker)
    asking = [asyncio.create_task(app({"n": n}, None, None)) for n in range(5)]
    await asyncio.sleep(0)
    maker.may.set()
    await asyncio.gather(*asking)
    await app({"n": 5}, None, None)
    assert maker.made == 1
    assert sorted(scope["n"] for scope in maker.served) == [0, 1, 2, 3, 4, 5]


async def test_a_failure_is_told_and_tried_again(maker: Maker) -> None:
    app, maker.trouble = OnDemand(maker), RuntimeError("broken")
    maker.may.set()
    with pytest.raises(RuntimeError, match="broken"):
        await app({}, None, None)
    maker.trouble = None
    await app({}, None, None)
    assert (maker.made, maker.served) == (2, [{}])


async def test_one_who_gives_up_costs_the_others_nothing(maker: Maker) -> None:
    app = OnDemand(maker)
    first, second = (asyncio.create_task(app({"n": n}, None, None)) for n in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    maker.may.set()
    await asyncio.wait([second])
    assert first.cancelled()
    assert (maker.made, maker.served) == (1, [{"n": 1}])
