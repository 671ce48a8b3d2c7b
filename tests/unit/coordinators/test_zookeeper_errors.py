"""Every exception of kazoo has a meaning for the caller, and a change without an answer says that nobody knows."""

from __future__ import annotations

import asyncio

import kazoo.exceptions
import kazoo.handlers.threading
import kazoo.protocol.connection
import kazoo.retry
import pytest

from bus.coordinators.zookeeper.errors import (
    BARE,
    FORBIDDEN,
    FOUND,
    REFUSED,
    UNAVAILABLE,
    translate,
    translating,
    unreached,
)
from bus.errors import StoreError, StoreUnavailable

MODULES = (kazoo.exceptions, kazoo.handlers.threading, kazoo.protocol.connection, kazoo.retry)


def raised_by_kazoo() -> set[type[Exception]]:
    return {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__.startswith("kazoo.")
    }


def test_every_exception_of_kazoo_is_mapped_once() -> None:
    mapped = [*FOUND, *UNAVAILABLE, *FORBIDDEN, *REFUSED]
    assert raised_by_kazoo() == set(mapped)
    assert len(mapped) == len(set(mapped))


@pytest.mark.parametrize("kind", [*UNAVAILABLE, *FORBIDDEN, *REFUSED, *BARE])
@pytest.mark.parametrize("changes", [True, False])
def test_an_exception_is_raised_as_the_bus_s(kind: type[Exception], changes: bool) -> None:
    with pytest.raises(StoreError) as caught, translating("write leaders/x", changes=changes):
        raise kind("x")
    error = caught.value
    assert kind.__name__ not in str(error)
    assert "(write leaders/x)" in str(error)
    assert error.hint
    assert error.retriable == (kind in {*UNAVAILABLE, *BARE})
    assert str(error).endswith("not known") == (changes and error.retriable)


@pytest.mark.parametrize("kind", FOUND)
def test_what_is_the_case_with_a_znode_is_for_who_asked(kind: type[Exception]) -> None:
    with pytest.raises(kind), translating("write", changes=True):
        raise kind


def test_an_exception_that_a_later_kazoo_adds_is_mapped_as_its_parent() -> None:
    class OfTomorrow(kazoo.exceptions.SessionExpiredError):
        pass

    assert isinstance(translate(OfTomorrow(), "read", changes=False), StoreUnavailable)


async def test_a_deadline_is_unavailable_and_a_cancellation_passes() -> None:
    with (
        pytest.raises(StoreUnavailable, match="no answer in time; whether it was done"),
        translating("w", changes=True),
    ):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(asyncio.CancelledError), translating("read", changes=False):
        raise asyncio.CancelledError
    with pytest.raises(KeyError), translating("read", changes=False):
        raise KeyError("a defect is not hidden")


def test_a_call_without_a_connection_says_that_nothing_was_sent() -> None:
    assert "nothing was sent" in str(unreached("write"))
    assert unreached("write").retriable
