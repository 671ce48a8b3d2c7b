"""Errors of RabbitMQ's client library as errors of the bus, with a text for people."""

from __future__ import annotations

from aio_pika.exceptions import AMQPConnectionError, AuthenticationError

from bus.errors import TransportRefused, TransportUnavailable
from bus.transports.rabbitmq.errors import translated


def test_a_rejection_is_more_exact_than_its_cause() -> None:
    error = AuthenticationError("ACCESS_REFUSED - Login was refused")
    error.__cause__ = ConnectionResetError()
    found = translated(error, "connecting")
    assert isinstance(found, TransportRefused)
    assert str(found) == "connecting: RabbitMQ refused: ACCESS_REFUSED - Login was refused"


def test_a_connection_that_is_not_made_has_no_raw_text() -> None:
    error = AMQPConnectionError(111, "Connect call failed ('127.0.0.1', 5672)")
    error.__cause__ = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 5672)")
    found = translated(error, "connecting")
    assert isinstance(found, TransportUnavailable)
    assert str(found) == "connecting: connection refused by 127.0.0.1:5672"
