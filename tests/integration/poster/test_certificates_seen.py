"""Certificates that a poster notes, from real handshakes, and how many of them it keeps."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from bus.domain.times import DAY
from bus.posters.certificates import Certificates
from tests.integration.poster.peers import OK

SOON = {"notAfter": "Jan  5 09:34:43 2018 GMT"}
SOON_MS = 1_515_144_883_000


async def to_loopback(host, port):
    return ["127.0.0.1"]


def serving(authority, **lasting) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("hook.example", **lasting).configure_cert(context)
    return context


@pytest.fixture
def trusting(make_poster, authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return partial(make_poster, ssl_context=context, resolver=to_loopback)


async def test_a_certificate_that_ends_soon_is_told_once_it_was_verified(hostile, trusting, authority, answer_with):
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(days=5)
    port = await hostile.start(answer_with(OK), context=serving(authority, not_after=ends))
    poster, now = trusting(), time.time_ns() // 1_000_000
    result = await poster.post(poster.target(f"https://hook.example:{port}/", {}), [], b"x", 5.0)
    assert result.status == 200
    (one,) = poster.certificates.told(now)
    assert (one.host, one.not_after) == (f"hook.example:{port}", round(ends.timestamp() * 1000))


async def test_one_that_nobody_verified_is_not(hostile, make_poster, authority, answer_with):
    ends = datetime.now(UTC) + timedelta(days=5)
    port = await hostile.start(answer_with(OK), context=serving(authority, not_after=ends))
    poster = make_poster(resolver=to_loopback)
    result = await poster.post(poster.target(f"https://hook.example:{port}/", {}), [], b"x", 5.0)
    assert result.status is None
    plain = await hostile.start(answer_with(OK))
    await poster.post(poster.target(f"http://hook.example:{plain}/", {}), [], b"x", 5.0)
    assert poster.certificates.told(time.time_ns() // 1_000_000) == []


def test_the_newest_counts_and_what_is_good_for_long_is_not_told():
    seen = Certificates()
    seen.note("a", 443, SOON, SOON_MS - 2 * DAY)
    seen.note("b", 443, {"notAfter": "Mar  5 09:34:43 2018 GMT"}, SOON_MS)
    assert [one.host for one in seen.told(SOON_MS)] == ["a:443"]
    seen.note("a", 443, {"notAfter": "Mar  5 09:34:43 2018 GMT"}, SOON_MS)
    assert seen.told(SOON_MS) == []


def test_what_was_not_seen_for_a_week_is_forgotten():
    seen = Certificates()
    seen.note("a", 443, SOON, SOON_MS - 8 * DAY)
    assert seen.told(SOON_MS - 2 * DAY)
    assert seen.told(SOON_MS) == []


@pytest.mark.parametrize("certificate", [{}, {"notAfter": 5}, {"notAfter": "soon"}])
def test_one_without_an_end_is_left_out(certificate):
    seen = Certificates()
    seen.note("a", 443, certificate, 0)
    assert seen.told(0) == []


def test_many_hosts_fill_no_memory():
    seen = Certificates()
    for number in range(1010):
        seen.note(f"h{number}", 443, SOON, SOON_MS)
    assert len(seen._seen) == 1000
    assert len(seen.told(SOON_MS)) == 50
