"""Errors of the coordinator for each of kazoo's exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kazoo import exceptions as driver
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import RWServerAvailable
from kazoo.retry import ForceRetryError, InterruptedError, RetryFailedError  # noqa: A004 - kazoo's own

from bus.error_texts import error_text, own_text
from bus.errors import StoreError, StoreUnavailable
from bus.localized_text import AnyText, localized

# What is the case with a znode: the call that compares knows what to make of it.
FOUND: Final[tuple[type[Exception], ...]] = (
    driver.BadVersionError,
    driver.NoNodeError,
    driver.NodeExistsError,
)

# The ensemble, the network or the end of a session is in the way: the same call may succeed later.
UNAVAILABLE: Final[tuple[type[Exception], ...]] = (
    driver.CancelledError,
    driver.ConnectionClosedError,
    driver.ConnectionDropped,
    driver.ConnectionLoss,
    driver.NotReadOnlyCallError,
    driver.OperationTimeoutError,
    driver.RequestTimeoutError,
    driver.SessionExpiredError,
    driver.SessionMovedError,
    driver.ThrottledOpError,
    driver.UnknownSessionError,
    driver.WriterNotClosedException,
    driver.ZookeeperStoppedError,
    ForceRetryError,
    InterruptedError,
    KazooTimeoutError,
    RetryFailedError,
    RWServerAvailable,
)

# A person has to change what the ensemble allows.
FORBIDDEN: Final[tuple[type[Exception], ...]] = (
    driver.AuthFailedError,
    driver.NoAuthError,
    driver.QuotaExceededError,
    driver.SASLException,
    driver.SessionClosedRequireSaslError,
)

# The request or this package is wrong; repeating the call cannot help.
REFUSED: Final[tuple[type[Exception], ...]] = (
    driver.KazooException,
    driver.ZookeeperError,
    driver.APIError,
    driver.BadArgumentsError,
    driver.ConfigurationError,
    driver.DataInconsistency,
    driver.EphemeralOnLocalSessionError,
    driver.InvalidACLError,
    driver.InvalidCallbackError,
    driver.LockTimeout,
    driver.MarshallingError,
    driver.NewConfigNoQuorumError,
    driver.NoChildrenForEphemeralsError,
    driver.NotEmptyError,
    driver.NoWatcherError,
    driver.ReconfigDisabledError,
    driver.ReconfigInProcessError,
    driver.RolledBackError,
    driver.RuntimeInconsistency,
    driver.SystemZookeeperError,
    driver.UnimplementedError,
)

# What kazoo raises without a class of its own: a broken socket, an answer to another question.
BARE: Final[tuple[type[Exception], ...]] = (OSError, RuntimeError)

_CAUGHT: Final[tuple[type[Exception], ...]] = (driver.KazooException, *UNAVAILABLE, *BARE)
_LOOK: Final = localized("check that ZooKeeper runs, has a majority, and can be reached")
_LOOK_AND_READ: Final = localized(
    "read the document before you repeat the change; check that ZooKeeper runs, has a majority, and can be reached"
)
_DEFECT: Final = localized("this is a defect of the bus, or somebody else writes below its path; please report it")


def unreached(what: str) -> StoreUnavailable:
    """Return the error of a call that found no connection: ZooKeeper knows nothing of it."""
    return StoreUnavailable(localized("ZooKeeper cannot be reached ({what}); nothing was sent", what=what), hint=_LOOK)


def translate(error: Exception, what: str, *, changes: bool) -> StoreError:
    """Return the bus's error for one of kazoo's; of a change that got no answer it says that nobody knows."""
    if isinstance(error, (*UNAVAILABLE, *BARE)):
        return _unanswered(what, error_text(error), changes=changes)
    if isinstance(error, FORBIDDEN):
        return StoreError(
            localized("ZooKeeper does not allow this ({what}): {error}", what=what, error=own_text(error)),
            hint=localized("give the bus all rights below its path, without a login, and quota enough"),
        )
    return StoreError(
        localized("ZooKeeper cannot do this ({what}): {error}", what=what, error=own_text(error)), hint=_DEFECT
    )


@contextmanager
def translating(what: str, *, changes: bool) -> Iterator[None]:
    """Raise the bus's errors instead of kazoo's, but for what is ``FOUND``; ``TimeoutError`` is the call's deadline."""
    try:
        yield
    except FOUND:
        raise
    except TimeoutError as error:
        raise _unanswered(what, localized("no answer in time"), changes=changes) from error
    except _CAUGHT as error:
        raise translate(error, what, changes=changes) from error


def _unanswered(what: str, why: AnyText, *, changes: bool) -> StoreUnavailable:
    if not changes:
        return StoreUnavailable(
            localized("ZooKeeper does not answer ({what}): {error}", what=what, error=why), hint=_LOOK
        )
    said = localized(
        "ZooKeeper does not answer ({what}): {error}; whether it was done is not known", what=what, error=why
    )
    return StoreUnavailable(said, hint=_LOOK_AND_READ)
