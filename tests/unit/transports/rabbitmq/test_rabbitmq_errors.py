"""Every exception of the client libraries becomes one of ours, and what is refused for good says so."""

from __future__ import annotations

import asyncio
import inspect
from types import ModuleType

import aio_pika.exceptions
import aiormq.exceptions
import pamqp.commands
import pamqp.exceptions
import pytest
from aiormq.abc import DeliveredMessage
from pamqp.header import ContentHeader

from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.transports.rabbitmq.errors import REFUSALS, QueueMissing, answering, translated


def exceptions(module: ModuleType) -> list[type[Exception]]:
    return [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, Exception)]


KINDS = sorted(
    {
        *exceptions(aiormq.exceptions),
        *exceptions(aio_pika.exceptions),
        *exceptions(pamqp.exceptions),
        *(TimeoutError, ConnectionResetError, ConnectionRefusedError, OSError, RuntimeError),
    },
    key=lambda kind: (kind.__module__, kind.__name__),
)


def example(kind: type[Exception]) -> Exception:
    if issubclass(kind, aiormq.exceptions.PublishError):
        returned = pamqp.commands.Basic.Return(312, "NO_ROUTE", "exchange", "key")
        return kind(DeliveredMessage(returned, ContentHeader(), b"", None), returned)
    if issubclass(kind, aiormq.exceptions.DeliveryError):
        return kind(None, pamqp.commands.Basic.Nack(1))
    if issubclass(kind, pamqp.exceptions.UnmarshalingException):
        return kind("Basic.Ack", "reason")
    return kind("reason")


def test_there_are_exceptions_to_look_at() -> None:
    assert len(KINDS) > 40


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
async def test_each_becomes_ours(kind: type[Exception]) -> None:
    with pytest.raises(TransportError, match=r"^asking") as raised, answering("asking"):
        raise example(kind)
    is_refusal = any(issubclass(kind, refused) for refused in REFUSALS)
    assert isinstance(raised.value, TransportRefused) is is_refusal
    assert raised.value.retriable is not is_refusal
    assert bool(raised.value.hint) is is_refusal


def test_what_is_not_there_can_be_told_from_a_broker_that_is_away() -> None:
    gone = aiormq.exceptions.ChannelNotFoundEntity("NOT_FOUND - no queue")
    assert isinstance(translated(gone, "asking"), QueueMissing)
    assert not isinstance(translated(aiormq.exceptions.ConnectionClosed("x"), "asking"), QueueMissing)


async def test_a_cancellation_that_nobody_asked_for_is_a_loss_of_the_connection() -> None:
    with pytest.raises(TransportUnavailable, match="connection was closed"), answering("asking"):
        raise asyncio.CancelledError


async def test_a_cancellation_that_somebody_asked_for_stays_one() -> None:
    async def ask() -> None:
        with answering("asking"):
            await asyncio.Event().wait()

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_loss_in_the_place_of_a_cancellation_does_not_hide_it() -> None:
    async def ask() -> None:
        with answering("asking"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise aiormq.exceptions.AMQPConnectionError("lost meanwhile") from None

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_in_the_place_of_a_cancellation_does_not_hide_it() -> None:
    async def ask() -> None:
        with answering("asking"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return  # as asyncio.wait_for of Python 3.11 does when its answer has just come

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_put_in_order_during_a_cancellation_is_not_cut_short() -> None:
    reached: list[str] = []

    async def ask() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with answering("closing"):
                await asyncio.sleep(0)
            reached.append("closed")
            with pytest.raises(TransportUnavailable), answering("closing"):
                raise asyncio.CancelledError
            reached.append("closed again")

    task = asyncio.create_task(ask())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reached == ["closed", "closed again"]


async def test_a_deadline_inside_is_an_answer_that_did_not_come() -> None:
    with pytest.raises(TransportUnavailable, match="did not answer in time"), answering("asking"):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()


def test_a_rejection_is_more_exact_than_its_cause() -> None:
    error = aiormq.exceptions.AuthenticationError("ACCESS_REFUSED - Login was refused")
    error.__cause__ = ConnectionResetError()
    found = translated(error, "connecting")
    assert isinstance(found, TransportRefused)
    assert str(found) == "connecting: RabbitMQ refused: ACCESS_REFUSED - Login was refused"


def test_a_connection_that_is_not_made_has_no_raw_text() -> None:
    error = aiormq.exceptions.AMQPConnectionError(111, "Connect call failed ('127.0.0.1', 5672)")
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 5672)")
    found = translated(error, "connecting")
    assert isinstance(found, TransportUnavailable)
    assert str(found) == "connecting: connection refused by 127.0.0.1:5672"
