"""Errors of the bus for those of the client library."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    IncompatibleProtocolError,
    MethodNotImplemented,
    ProbableAuthenticationError,
)
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ConnectionNotAllowed,
    ConnectionNotImplemented,
)

from bus.error_texts import error_text, own_text
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import AnyText, LocalizedText, localized

_CREDENTIALS: Final = localized("check user and password in the cluster's URL")
_PERMISSION: Final = localized("give the user configure, write and read permission on the virtual host")
_NOT_RABBITMQ: Final = localized("check host and port: it must be a RabbitMQ that speaks AMQP 0-9-1")

# What the broker refuses permanently, and what to do about it.
REFUSALS: Final[dict[type[BaseException], LocalizedText]] = {
    AuthenticationError: _CREDENTIALS,
    ProbableAuthenticationError: _CREDENTIALS,
    ChannelAccessRefused: _PERMISSION,
    ConnectionNotAllowed: _PERMISSION,
    ChannelPreconditionFailed: localized(
        "delete what has the name, once it is empty, or give the destination another code"
    ),
    ChannelLockedResource: localized("another connection has it for itself: end that one"),
    IncompatibleProtocolError: _NOT_RABBITMQ,
    ConnectionNotImplemented: _NOT_RABBITMQ,
    MethodNotImplemented: _NOT_RABBITMQ,
}
DRIVER_ERRORS: Final = (*CONNECTION_EXCEPTIONS, TimeoutError)


class QueueMissing(TransportUnavailable):
    """The queue or exchange is not there (any more)."""


def translated(error: BaseException, doing: AnyText) -> TransportError:
    """Return the project's error for something that the client library raised while ``doing``."""
    for kind, hint in REFUSALS.items():
        if isinstance(error, kind):
            refused = localized("{doing}: RabbitMQ refused: {said}", doing=doing, said=own_text(error))
            return TransportRefused(refused, hint=hint)
    if isinstance(error, ChannelNotFoundEntity):
        return QueueMissing(localized("{doing}: {said}", doing=doing, said=own_text(error)))
    if isinstance(error, TimeoutError):
        return TransportUnavailable(localized("{doing}: RabbitMQ did not answer in time", doing=doing))
    if isinstance(error, asyncio.CancelledError):
        return TransportUnavailable(localized("{doing}: the connection was closed", doing=doing))
    return TransportUnavailable(localized("{doing}: {said}", doing=doing, said=error_text(error)))


@contextmanager
def answering(doing: AnyText) -> Iterator[None]:
    """Raise errors of the client library as ``TransportError``; a deadline belongs inside as well.

    The library ends calls with ``CancelledError`` when their connection closes, and lets the loss of a connection, or
    an answer that came at the same moment, take the place of a cancellation. So this task's own count of
    cancellations decides which it was.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0

    def was_cancelled() -> bool:
        return task is not None and task.cancelling() > before

    try:
        yield
    except (asyncio.CancelledError, *DRIVER_ERRORS) as error:
        if was_cancelled():
            raise asyncio.CancelledError from error
        raise translated(error, doing) from error
    if was_cancelled():
        raise asyncio.CancelledError
