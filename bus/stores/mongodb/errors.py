"""Errors of the store for each of PyMongo's exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import bson.errors
import pymongo.errors as driver
from dns.exception import DNSException

from bus.error_texts import error_text, plain_text
from bus.errors import StoreError, StoreUnavailable
from bus.localized_text import localized

DUPLICATE_KEY: Final = 11000

# The server, the network or a change of primary is in the way: the same call may succeed later.
UNAVAILABLE: Final[tuple[type[Exception], ...]] = (
    driver.AutoReconnect,
    driver.ConnectionFailure,
    driver.CursorNotFound,
    driver.ExecutionTimeout,
    driver.NetworkTimeout,
    driver.NotPrimaryError,
    driver.ServerSelectionTimeoutError,
    driver.WaitQueueTimeoutError,
    driver.WriteConcernError,
    driver.WTimeoutError,
)

# The server answered; its code decides.
ANSWERED: Final[tuple[type[Exception], ...]] = (
    driver.BulkWriteError,
    driver.ClientBulkWriteException,
    driver.DuplicateKeyError,
    driver.OperationFailure,
    driver.WriteError,
)

# The document, the settings or this package are wrong; repeating the call cannot help.
REFUSED: Final[tuple[type[Exception], ...]] = (
    driver.PyMongoError,
    driver.CollectionInvalid,
    driver.ConfigurationError,
    driver.DocumentTooLarge,
    driver.EncryptedCollectionError,
    driver.EncryptionError,
    driver.InvalidName,
    driver.InvalidOperation,
    driver.InvalidURI,
    driver.ProtocolError,
    bson.errors.BSONError,
    bson.errors.InvalidBSON,
    bson.errors.InvalidDocument,
    bson.errors.InvalidId,
    bson.errors.InvalidStringData,
)

# What the driver raises without a class of its own: a broken socket, a number over 64 bits, text that is not Unicode.
BARE: Final[tuple[type[Exception], ...]] = (OSError, OverflowError, UnicodeError)

_CAUGHT: Final[tuple[type[Exception], ...]] = (driver.PyMongoError, bson.errors.BSONError, *BARE)
_RETRIABLE_LABELS: Final = (
    "RetryableWriteError",
    "RetryableError",
    "SystemOverloadedError",
    "TransientTransactionError",
)
# Codes of MongoDB's error_codes.yml that pass: elections, shutdown, overload, time limits, write concern, a full disk.
_RETRIABLE_CODES: Final = frozenset(
    {6, 7, 24, 43, 46, 50, 64, 89, 91, 100, 112, 133, 134, 175, 189, 202, 237, 246, 262, 462}
    | {9001, 10058, 10107, 11600, 11601, 11602, 13388, 13435, 13436, 14031}
)
_LIMITS: Final = re.compile(r" ?\(configured timeouts: [^)]*\)|, Timeout: [\d.]+s")
_LOGIN: Final = frozenset({13, 18, 8000})
_WAIT: Final = localized("the writes stay in the spool; check that the server runs and can be reached, and its disk")
_DEFECT: Final = localized(
    "if the server is one that docs/mongodb.md names, this is a defect of the bus; please report it"
)


def translate(error: Exception, what: str) -> StoreError:
    """Return the store's error for one that the driver raised while it did ``what``.

    The text never has the documents in it, which ``BulkWriteError`` would print whole. A name that cannot be resolved
    now is an error of configuration for the driver, but not for the bus.
    """
    if isinstance(error, (*UNAVAILABLE, OSError)) or isinstance(error.__cause__, DNSException | OSError):
        return StoreUnavailable(
            localized("MongoDB does not answer ({what}): {error}", what=what, error=_brief(error)), hint=_WAIT
        )
    if isinstance(error, ANSWERED):
        return _answered(error, what)
    return StoreError(
        localized("MongoDB cannot do this ({what}): {error}", what=what, error=_brief(error)), hint=_DEFECT
    )


@contextmanager
def translating(what: str) -> Iterator[None]:
    """Raise the store's errors instead of the driver's; ``TimeoutError`` is the deadline of the call."""
    try:
        yield
    except TimeoutError as error:
        raise StoreUnavailable(
            localized("MongoDB does not answer ({what}): no answer in time", what=what), hint=_WAIT
        ) from error
    except _CAUGHT as error:
        raise translate(error, what) from error


def translate_write(code: int, text: str, what: str) -> StoreError:
    """Return the store's error for one operation of a bulk that the server did not do."""
    if code in _RETRIABLE_CODES:
        return _not_now(what, text, code)
    return StoreError(
        localized("MongoDB refused this ({what}): {text} (code {code})", what=what, text=text, code=f"{code}"),
        hint=localized("all others were written; look at the document and at the server's log"),
    )


def _not_now(what: str, text: str, code: int | None) -> StoreUnavailable:
    said = localized(
        "MongoDB could not do this now ({what}): {text} (code {code})", what=what, text=text, code=f"{code}"
    )
    return StoreUnavailable(said, hint=_WAIT)


def failed_writes(error: driver.BulkWriteError) -> list[tuple[int, int, str]]:
    """Return place, code and text of each operation of a bulk that the server refused."""
    return [(failed["index"], failed["code"], failed["errmsg"]) for failed in error.details["writeErrors"]]


def _answered(error: Exception, what: str) -> StoreError:
    code, text, labels = _said(error)
    if code in _RETRIABLE_CODES or any(label in labels for label in _RETRIABLE_LABELS):
        return _not_now(what, text, code)
    if code in _LOGIN:
        return StoreError(
            localized("MongoDB refuses the login ({what}): {text} (code {code})", what=what, text=text, code=f"{code}"),
            hint=localized(
                "check user, password and authSource in the store's URL, and the roles that docs/mongodb.md names"
            ),
        )
    return StoreError(
        localized("MongoDB refused ({what}): {text} (code {code})", what=what, text=text, code=f"{code}"), hint=_DEFECT
    )


def _said(error: Exception) -> tuple[int | None, str, list[str]]:
    """Return code, text and labels of an answer; of a bulk's errors a retriable one first, a duplicate key last."""
    details: Any = getattr(error, "details", None) or {}
    labels = list(details.get("errorLabels", ()))
    parts = [*details.get("writeConcernErrors", ()), *details.get("writeErrors", ())]
    for part in sorted(parts, key=_weight):
        return part.get("code"), str(part.get("errmsg", "")), labels + list(part.get("errorLabels", ()))
    return details.get("code", getattr(error, "code", None)), str(details.get("errmsg") or _brief(error)), labels


def _weight(part: Any) -> int:
    code = part.get("code")
    if code in _RETRIABLE_CODES:
        return 0
    return 2 if code == DUPLICATE_KEY else 1


def _brief(error: Exception) -> str:
    text = _LIMITS.sub("", str(error).partition(", Topology Description")[0])
    return plain_text(text[:300]) or str(error_text(error))
