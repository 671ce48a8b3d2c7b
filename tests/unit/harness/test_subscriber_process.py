"""The subscriber that tests trust: it records before it answers, and refuses bad signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec
import pytest
from standardwebhooks import Webhook

from tests.harness.behaviour import Behaviour, parse_behaviour, parse_paths
from tests.harness.records import read_calls
from tests.harness.subscribers import SubscriberProcess

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def subscriber(tmp_path: Path) -> Iterator[SubscriberProcess]:
    paths = "/refuses=fail:1,status:500,retry_after:7", f"/signed=secret:{SECRET}", "/some=fail:0.5,seed:3"
    with SubscriberProcess(tmp_path, *paths) as process:
        yield process


def post(process: SubscriberProcess, path: str, body: bytes, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(process.url(path), content=body, headers=given, trust_env=False)


def test_a_call_is_recorded_before_it_is_answered(subscriber: SubscriberProcess) -> None:
    body = b'{"seq":5,"x":1}'
    assert post(subscriber, "/a", body, webhook_id="m", bus_attempt="2", bus_destination="d", bus_key="k").is_success
    (found,) = read_calls(subscriber.record)
    assert (found.path, found.id, found.attempt, found.destination, found.key) == ("/a", "m", 2, "d", "k")
    assert (found.seq, found.status, found.bytes) == (5, 200, len(body))
    assert found.sha256 == hashlib.sha256(body).hexdigest()


def test_failures_are_as_told(subscriber: SubscriberProcess) -> None:
    refused = post(subscriber, "/refuses", b"x")
    assert (refused.status_code, refused.headers["retry-after"]) == (500, "7")
    statuses = [post(subscriber, "/some", b"x").status_code for _ in range(40)]
    assert 5 < statuses.count(503) < 35
    assert [call.status for call in subscriber.calls("/some")] == statuses


def test_signatures_are_verified(subscriber: SubscriberProcess) -> None:
    now = datetime.now(UTC)
    stamp = str(int(now.timestamp()))
    right = Webhook(SECRET).sign("m", now, "body")
    signed = {"webhook_id": "m", "webhook_timestamp": stamp}
    assert post(subscriber, "/signed", b"body", webhook_signature=right, **signed).status_code == 200
    assert post(subscriber, "/signed", b"other", webhook_signature=right, **signed).status_code == 401
    assert post(subscriber, "/signed", b"body").status_code == 401
    binary = (
        "v1,"
        + base64.b64encode(
            hmac.digest(base64.b64decode(SECRET.removeprefix("whsec_")), f"m.{stamp}.".encode() + b"\xff", "sha256")
        ).decode()
    )
    assert post(subscriber, "/signed", b"\xff", webhook_signature=binary, **signed).status_code == 200
    assert post(subscriber, "/signed", b"\xfe", webhook_signature=binary, **signed).status_code == 401
    assert [call.signature for call in subscriber.calls("/signed")] == [True, False, False, True, False]


def test_it_behaves_otherwise_when_told(subscriber: SubscriberProcess) -> None:
    subscriber.configure("/a=fail:1")
    assert post(subscriber, "/a", b"x").status_code == 503
    with pytest.raises(httpx.HTTPStatusError):
        subscriber.configure("/a=unknown:1")


def test_a_tally_keeps_numbers_and_times(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path, tally=True) as sink:
        for seq in (3, 1):
            post(sink, "/a", b'{"seq":%d,"pad":""}' % seq)
        seqs, times = sink.tally("/a")
        assert list(seqs) == [3, 1]
        assert times[0] < times[1]
        assert sink.count("/a") == 2
        sink.reset()
        assert sink.count("/a") == 0


def test_sigterm_ends_it_with_0_and_it_starts_again_on_its_port(tmp_path: Path) -> None:
    process = SubscriberProcess(tmp_path)
    with process:
        port = process.port
        post(process, "/a", b"x")
        assert process.stop() == 0
        process.start()
        assert process.port == port
        post(process, "/a", b"y")
        assert len(process.calls()) == 2


def test_behaviours_are_read_strictly() -> None:
    default = Behaviour(seed=4)
    assert parse_paths(["/a=delay:0.2,hang", "/b"], default) == {
        "/a": Behaviour(delay=0.2, hang=True, seed=4),
        "/b": default,
    }
    with pytest.raises(msgspec.ValidationError):
        parse_behaviour("delay:soon", default)
    with pytest.raises(msgspec.ValidationError):
        parse_behaviour("slow:1", default)
