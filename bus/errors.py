"""Every error the bus raises, as one tree.

    BusError
    ├── ConfigurationError      a setting is impossible; the start stops
    ├── InvalidMessage          the message itself is wrong; sending it again cannot help
    │   ├── InvalidDestination  no such code, or not a possible code
    │   ├── MessageTooLarge     over the limit in bytes
    │   └── WrongType           an argument of another type than a call takes; a TypeError too
    ├── SpoolError              a local file queue
    │   ├── SpoolFull           size limit or disk reserve reached; nothing stored was dropped   (retriable)
    │   ├── SpoolLocked         another live process owns the directory
    │   ├── SpoolFailed         the disk failed; nothing was acknowledged after the failure
    │   └── SpoolClosed         used after close()
    ├── TransportError          a broker
    │   ├── TransportUnavailable  it did not answer; what was accepted waits in the spool      (retriable)
    │   └── TransportRefused    wrong credentials, or a queue with other settings is there
    ├── StoreError              the store refused
    │   ├── StoreUnavailable    the store did not answer                                         (retriable)
    │   ├── NotFound            no such document
    │   └── Conflict            somebody else changed the document first
    ├── ReceiverError           the receiver's answer to the SDK or the CLI
    │   ├── ReceiverUnavailable no answer, 429 or 5xx                                            (retriable)
    │   └── ReceiverRefused     any other refusal: the record cannot be accepted as it is
    ├── BackupError             a backup is not whole, is damaged, or is not for this place
    ├── QuotaUsedUp             a destination or a key has all that it may take now                  (retriable)
    ├── EventsUnavailable       trace events find no place now; messages are not affected            (retriable)
    ├── RefusedElsewhere        the process that keeps a destination's order refused a message
    ├── NotLeader               another process sends to a strictly ordered destination          (retriable)
    │   └── LeaseLost           a producer had the lease of one, and will not have it again
    ├── Unconfirmed             no group of brokers has confirmed a message yet; it is kept, and sent
    ├── PeerUnavailable         another process of the bus did not answer                        (retriable)
    ├── IssuerUnavailable       the OpenID Connect provider did not answer as one should             (retriable)
    ├── EgressDenied            a subscriber's address is one that the bus may not call
    └── AccessDenied            a key or user is missing, wrong, or not allowed to do this
        └── TooManyAttempts     somebody failed to log in too often lately                       (retriable)

Retry code asks the error: ``error.retriable``.
"""

from __future__ import annotations

import math
from typing import ClassVar

from bus.sentences import Said


class BusError(Exception):
    """Root of every error of the bus.

    Parameters
    ----------
    message
        What happened, and what was not lost.
    hint
        What to do next; shown by the command line after the message.

    Attributes
    ----------
    said, hint_said
        Both as they were given: sentences can be said in another language.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, message: Said, *, hint: Said = "") -> None:
        super().__init__(str(message))
        self.hint = str(hint)
        self.said = message
        self.hint_said = hint


class ConfigurationError(BusError):
    """A setting is unknown or impossible."""


class InvalidMessage(BusError):
    """The message cannot be accepted as it is, now or later."""

    def __init__(self, message: Said, *, hint: Said = "", field: str = "") -> None:
        super().__init__(message, hint=hint)
        self.field = field


class InvalidDestination(InvalidMessage):
    """The destination code is malformed or unknown."""


class MessageTooLarge(InvalidMessage):
    """The body is over the limit."""


class WrongType(InvalidMessage, TypeError):
    """An argument of the SDK is of another type than it takes."""


class SpoolError(BusError):
    """A local file queue cannot do what was asked."""


class SpoolFull(SpoolError):
    """The queue's size limit or the disk's reserve is reached; what is stored stays stored."""

    retriable = True


class SpoolLocked(SpoolError):
    """Another live process owns this directory."""


class SpoolFailed(SpoolError):
    """The disk failed. What was acknowledged before is on disk; nothing was acknowledged since."""


class SpoolClosed(SpoolError):
    """The queue was used after it was closed."""


class TransportError(BusError):
    """A broker refused or did not answer."""


class TransportUnavailable(TransportError):
    """The broker did not answer; what was accepted stays in the spool."""

    retriable = True


class TransportRefused(TransportError):
    """The broker refused: wrong credentials, no permission, or a topic or queue with other settings is there."""


class StoreError(BusError):
    """The store refused."""


class StoreUnavailable(StoreError):
    """The store did not answer; the writes stay in the spool."""

    retriable = True


class NotFound(StoreError):
    """There is no such document."""


class Conflict(StoreError):
    """The document was changed by somebody else first."""


class ReceiverError(BusError):
    """What a receiver answered."""

    def __init__(self, message: Said, *, hint: Said = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class ReceiverUnavailable(ReceiverError):
    """No answer, 401, 403, 429 or 5xx: the record stays in the spool and is sent again."""

    retriable = True


class ReceiverRefused(ReceiverError):
    """The receiver refused the record for good (404, 413, 422)."""


class BackupError(BusError):
    """A backup cannot be taken or put back as it is; what was there before is as it was."""


class QuotaUsedUp(BusError):
    """A destination or a key has all that it may take now; nothing was stored, and nobody else is refused for it.

    ``field`` says whose it is, ``destination`` or ``key``; ``wait`` is in how many seconds it may be tried again.
    """

    retriable = True

    def __init__(self, message: Said, *, hint: Said = "", field: str = "destination", wait: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.wait = max(1, math.ceil(wait))


class EventsUnavailable(BusError):
    """Trace events are not taken now; no message is held up or lost by that. ``status`` as an answer over HTTP."""

    retriable = True

    def __init__(self, message: Said, *, hint: Said = "", status: int = 503) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class PeerUnavailable(BusError):
    """Another process of the bus did not answer; ``indeterminate`` when it may have acted on what it was asked."""

    retriable = True

    def __init__(self, message: Said, *, hint: Said = "", indeterminate: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.indeterminate = indeterminate


class NotLeader(BusError):
    """Another process, or another producer, sends to a strictly ordered destination.

    ``url`` is where the process is, if that is known; ``wait`` in how many seconds to try again, 0 when nobody can say.
    """

    retriable = True

    def __init__(self, message: Said, *, hint: Said = "", url: str = "", wait: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.url = url
        self.wait = wait


class LeaseLost(NotLeader):
    """A message is of a producer that is not, and never will be again, the one that sends to its destination."""

    retriable = False

    def __init__(self, message: Said, *, hint: Said = "") -> None:
        super().__init__(message, hint=hint, wait=0)


class Unconfirmed(BusError):
    """A message is on this machine's disk, and it is sent; whether a group of brokers has it, nobody has said yet.

    It is not to be sent again: it would be another message. ``id`` is its own.
    """

    def __init__(self, message: Said, *, hint: Said = "", id: str = "") -> None:  # noqa: A002
        super().__init__(message, hint=hint)
        self.id = id


class RefusedElsewhere(BusError):
    """The process that keeps a destination's order refused a message; all is as it said (``bus.http.problem``)."""

    def __init__(self, message: Said, *, hint: Said = "", status: int = 503, field: str = "", wait: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.field = field
        self.wait = wait


class IssuerUnavailable(BusError):
    """The OpenID Connect provider did not answer, or not as one should; nobody was logged in or out."""

    retriable = True


class EgressDenied(BusError):
    """The address is one that the bus may not call."""


class AccessDenied(BusError):
    """The key or user is missing or wrong (``status`` 401), or not allowed to do this (403)."""

    def __init__(self, message: Said, *, hint: Said = "", status: int = 403) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class TooManyAttempts(AccessDenied):
    """Attempts to log in failed too often; ``wait`` is in how many seconds the next one is looked at."""

    retriable = True

    def __init__(self, message: Said, *, hint: Said = "", wait: float = 1.0) -> None:
        super().__init__(message, hint=hint, status=429)
        self.wait = math.ceil(wait)
