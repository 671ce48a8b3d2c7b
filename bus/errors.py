"""Every error the bus raises, as one tree.

    BusError
    ├── ConfigurationError      a setting is invalid; the process does not start
    ├── InvalidMessage          the message itself is wrong; sending it again cannot help
    │   ├── InvalidDestination  the code is unknown or malformed
    │   ├── MessageTooLarge     over the limit in bytes
    │   └── WrongType           an argument of another type than a call takes; a TypeError too
    ├── SpoolError              a local file queue
    │   ├── SpoolFull           size limit or disk reserve reached; nothing stored was dropped   (retriable)
    │   ├── SpoolLocked         another live process owns the directory
    │   ├── SpoolFailed         the disk failed; no record was acknowledged after the failure
    │   └── SpoolClosed         used after close()
    ├── TransportError          a broker
    │   ├── TransportUnavailable  no response; accepted messages wait in the spool              (retriable)
    │   └── TransportRefused    wrong credentials, or a queue with other settings exists
    ├── StoreError              the store refused
    │   ├── StoreUnavailable    no response from the store                                       (retriable)
    │   ├── NotFound            no such document
    │   └── Conflict            the document was changed concurrently
    ├── ReceiverError           the receiver's response to the SDK or the CLI
    │   ├── ReceiverUnavailable no response, 429 or 5xx                                          (retriable)
    │   └── ReceiverRefused     any other rejection: the record is invalid
    ├── BackupError             a backup is incomplete, damaged, or does not fit the target
    ├── QuotaUsedUp             the quota of a destination or a key is used up                       (retriable)
    ├── EventsUnavailable       trace events are rejected for now; messages are not affected         (retriable)
    ├── RefusedElsewhere        the leader of a strictly ordered destination rejected a message
    ├── NotLeader               another process sends to a strictly ordered destination          (retriable)
    │   └── LeaseLost           a producer lost the lease of such a destination permanently
    ├── Unconfirmed             no group of brokers has confirmed a message yet; it is stored and will be sent
    ├── PeerUnavailable         no response from another process of the bus                      (retriable)
    ├── IssuerUnavailable       no valid response from the OpenID Connect provider                   (retriable)
    ├── EgressDenied            the egress policy denies a subscriber's address
    └── AccessDenied            a key or user is missing, wrong, or lacks the permission
        └── TooManyAttempts     too many failed logins in a short time                           (retriable)

Code that retries uses ``error.retriable``.
"""

from __future__ import annotations

import math
from typing import ClassVar

from bus.localized_text import AnyText


class BusError(Exception):
    """Root of every error of the bus.

    Parameters
    ----------
    message
        The event, and the state of the data.
    hint
        The remedy; shown by the command line after the message.

    Attributes
    ----------
    said, hint_said
        Both as they were given: a sentence can be translated.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, message: AnyText, *, hint: AnyText = "") -> None:
        super().__init__(str(message))
        self.hint = str(hint)
        self.said = message
        self.hint_said = hint


class ConfigurationError(BusError):
    """A setting is unknown or invalid."""


class InvalidMessage(BusError):
    """The message cannot be accepted as it is, now or later."""

    def __init__(self, message: AnyText, *, hint: AnyText = "", field: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class InvalidDestination(InvalidMessage):
    """The destination code is malformed or unknown."""


class MessageTooLarge(InvalidMessage):
    """The body is over the limit."""


class WrongType(InvalidMessage, TypeError):
    """An argument of the SDK is of another type than it takes."""


class SpoolError(BusError):
    """An operation of a local file queue failed."""


class SpoolFull(SpoolError):
    """The queue's size limit or the disk's reserve is reached; stored records are kept."""

    retriable = True


class SpoolLocked(SpoolError):
    """Another live process owns this directory."""


class SpoolFailed(SpoolError):
    """The disk failed. Records acknowledged before are on disk; none was acknowledged since."""


class SpoolClosed(SpoolError):
    """The queue was used after it was closed."""


class TransportError(BusError):
    """A broker rejected a request or did not respond."""


class TransportUnavailable(TransportError):
    """The broker did not respond; accepted messages stay in the spool."""

    retriable = True


class TransportRefused(TransportError):
    """The broker rejected a request: wrong credentials, no permission, or a topic or queue with other settings."""


class StoreError(BusError):
    """The store rejected a request."""


class StoreUnavailable(StoreError):
    """The store did not respond; the writes stay in the spool."""

    retriable = True


class NotFound(StoreError):
    """The document does not exist."""


class Conflict(StoreError):
    """The document was changed concurrently."""


class ReceiverError(BusError):
    """A request to a receiver failed."""

    def __init__(self, message: AnyText, *, hint: AnyText = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ReceiverUnavailable(ReceiverError):
    """No response, 401, 403, 429 or 5xx: the record stays in the spool and is retried."""

    retriable = True


class ReceiverRefused(ReceiverError):
    """The receiver rejected the record permanently (404, 413, 422)."""


class BackupError(BusError):
    """A backup cannot be taken or restored; existing data is unchanged."""


class QuotaUsedUp(BusError):
    """The quota of a destination or a key is used up; the message was not stored, and others are not affected.

    ``field`` is the owner of the quota, ``destination`` or ``key``; ``wait`` the seconds until the next attempt.
    """

    retriable = True

    def __init__(self, message: AnyText, *, hint: AnyText = "", field: str = "destination", wait: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.wait = max(1, math.ceil(wait))


class EventsUnavailable(BusError):
    """Trace events are rejected for now; no message is delayed or lost. ``status`` is the HTTP status."""

    retriable = True

    def __init__(self, message: AnyText, *, hint: AnyText = "", status: int = 503) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class PeerUnavailable(BusError):
    """Another process of the bus did not respond; ``indeterminate`` when it may have executed the request."""

    retriable = True

    def __init__(self, message: AnyText, *, hint: AnyText = "", indeterminate: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.indeterminate = indeterminate


class NotLeader(BusError):
    """Another process, or another producer, sends to a strictly ordered destination.

    ``url`` is that process's, if known; ``wait`` the seconds until the next attempt, 0 if unknown.
    """

    retriable = True

    def __init__(self, message: AnyText, *, hint: AnyText = "", url: str = "", wait: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.url = url
        self.wait = wait


class LeaseLost(NotLeader):
    """A message is from a producer that lost the lease of its destination permanently."""

    retriable = False

    def __init__(self, message: AnyText, *, hint: AnyText = "") -> None:
        super().__init__(message, hint=hint, wait=0)


class Unconfirmed(BusError):
    """A message is on this machine's disk and will be sent; no group of brokers has confirmed it yet.

    Do not send it again: that would create another message. ``id`` is the message's.
    """

    def __init__(self, message: AnyText, *, hint: AnyText = "", id: str = "") -> None:  # noqa: A002
        super().__init__(message, hint=hint)
        self.id = id


class RefusedElsewhere(BusError):
    """The leader of a strictly ordered destination rejected a message; the fields are those of its problem document."""

    def __init__(
        self, message: AnyText, *, hint: AnyText = "", status: int = 503, field: str = "", wait: int = 0
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.field = field
        self.wait = wait


class IssuerUnavailable(BusError):
    """The OpenID Connect provider gave no valid response; no session was created or ended."""

    retriable = True


class EgressDenied(BusError):
    """The egress policy denies the address."""


class AccessDenied(BusError):
    """The key or user is missing or wrong (``status`` 401), or lacks the permission (403)."""

    def __init__(self, message: AnyText, *, hint: AnyText = "", status: int = 403) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class TooManyAttempts(AccessDenied):
    """Too many failed logins; ``wait`` is the number of seconds until the next attempt is accepted."""

    retriable = True

    def __init__(self, message: AnyText, *, hint: AnyText = "", wait: float = 1.0) -> None:
        super().__init__(message, hint=hint, status=429)
        self.wait = math.ceil(wait)
