"""Every exception of the driver has a meaning for the caller, and no document gets into a text."""

from __future__ import annotations

import asyncio

import bson.errors
import pymongo.errors as driver
import pytest

from bus.errors import StoreError, StoreUnavailable
from bus.stores.mongodb.errors import (
    ANSWERED,
    BARE,
    REFUSED,
    UNAVAILABLE,
    failed_writes,
    translate,
    translate_write,
    translating,
)

DUPLICATE = {"index": 3, "code": 11000, "errmsg": "E11000 duplicate key", "op": {"body": "s3cret"}}
DETAILS = {"writeErrors": [DUPLICATE], "writeConcernErrors": [], "nMatched": 2}


def raised_by_the_driver() -> set[type[Exception]]:
    return {
        value
        for module in (driver, bson.errors)
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, Exception)
    }


def make(kind: type[Exception]) -> Exception:
    if kind is driver.BulkWriteError:
        return driver.BulkWriteError(DETAILS)
    if kind is driver.ClientBulkWriteException:
        return driver.ClientBulkWriteException({"error": None, "writeErrors": [], "writeConcernErrors": []}, False)
    if kind is driver.EncryptionError:
        return driver.EncryptionError(ValueError("x"))
    if kind is driver.EncryptedCollectionError:
        return driver.EncryptedCollectionError(ValueError("x"), {})
    if kind is UnicodeError:
        return UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
    return kind("x")


def test_every_exception_of_the_driver_is_mapped() -> None:
    found = raised_by_the_driver()
    assert found == {*UNAVAILABLE, *ANSWERED, *REFUSED}
    assert len(found) == len(UNAVAILABLE) + len(ANSWERED) + len(REFUSED)
    for kind in (*found, *BARE):
        error = translate(make(kind), "read traces")
        assert isinstance(error, StoreError)
        assert "(read traces)" in str(error)
        assert error.hint
        assert error.retriable == (kind in {*UNAVAILABLE, OSError}), kind


def test_an_exception_that_a_later_driver_adds_is_mapped_as_its_parent() -> None:
    class OfTomorrow(driver.AutoReconnect):
        pass

    private = [value for name, value in vars(driver).items() if name.startswith("_") and isinstance(value, type)]
    for kind in (OfTomorrow, *(one for one in private if issubclass(one, driver.AutoReconnect))):
        assert isinstance(translate(kind("x"), "read"), StoreUnavailable)


@pytest.mark.parametrize(
    ("code", "retriable"),
    [
        *((code, True) for code in (11600, 189, 10107, 50, 91, 112, 14031)),
        *((code, False) for code in (2, 9, 13, 18, 59, 10334, None)),
    ],
)
def test_the_code_of_an_answer_decides(code: int | None, retriable: bool) -> None:
    for kind in (driver.OperationFailure, driver.WriteError):
        error = translate(kind("no", code), "write")
        assert error.retriable is retriable
        assert str(code) in str(error)


def test_what_a_server_marks_as_retriable_is() -> None:
    error = driver.OperationFailure("busy", 1, {"errmsg": "busy", "code": 1, "errorLabels": ["SystemOverloadedError"]})
    assert translate(error, "write").retriable


def test_a_majority_that_did_not_answer_counts_more_than_a_key_that_was_there() -> None:
    waited = {"code": 64, "errmsg": "waiting for replication timed out"}
    error = driver.BulkWriteError(DETAILS | {"writeConcernErrors": [waited]})
    assert "waiting for replication" in str(translate(error, "write"))
    assert translate(error, "write").retriable


def test_what_passes_counts_more_than_what_was_there_and_what_is_refused() -> None:
    """A primary that steps down in the middle of a bulk: the rest is to be repeated."""
    large = {"index": 4, "code": 10334, "errmsg": "too large"}
    away = {"index": 5, "code": 10107, "errmsg": "not primary"}
    assert "too large" in str(translate(driver.BulkWriteError(DETAILS | {"writeErrors": [DUPLICATE, large]}), "write"))
    error = translate(driver.BulkWriteError(DETAILS | {"writeErrors": [DUPLICATE, large, away]}), "write")
    assert "not primary" in str(error)
    assert error.retriable


def test_one_operation_of_a_bulk_is_refused_or_repeated_by_its_code() -> None:
    assert translate_write(10107, "not primary", "write").retriable
    refused = translate_write(10334, "too large", "write traces")
    assert not refused.retriable
    assert "(write traces): too large (code 10334)" in str(refused)
    assert refused.hint


def test_no_document_gets_into_a_text() -> None:
    error = driver.BulkWriteError(DETAILS)
    assert "s3cret" in str(error)
    assert "s3cret" not in str(translate(error, "write"))
    assert failed_writes(error) == [(3, 11000, "E11000 duplicate key")]


def test_a_login_says_what_to_do() -> None:
    for code in (13, 18):
        assert "authSource" in translate(driver.OperationFailure("no", code), "open").hint


async def test_a_deadline_is_unavailable_and_a_cancellation_passes() -> None:
    with pytest.raises(StoreUnavailable, match="no answer in time"), translating("read"):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(asyncio.CancelledError), translating("read"):
        raise asyncio.CancelledError
    with pytest.raises(KeyError), translating("read"):
        raise KeyError("a defect is not hidden")


def test_a_server_that_is_not_reached_is_named_without_the_words_of_the_driver() -> None:
    raw = (
        "127.0.0.1:9: [Errno 111] Connection refused (configured timeouts: socketTimeoutMS: 20000.0ms, "
        "connectTimeoutMS: 20000.0ms), Timeout: 2.0s, Topology Description: <TopologyDescription id: 1>"
    )
    error = translate(driver.ServerSelectionTimeoutError(raw), "read documents")
    assert str(error) == "MongoDB does not answer (read documents): connection refused by 127.0.0.1:9"
