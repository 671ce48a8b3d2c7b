"""A single message is answered the same by the endpoint and by the application, however the request comes."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import SpoolError, SpoolFailed, SpoolFull
from bus.http.protocol import MOST_BEHIND
from tests.unit.receiver.single_requests import ALL, KNOWN, OTHERS, PLAIN, REFUSED, TAKEN, post
from tests.unit.receiver.talks import DEADLINE, Talk, both, direct


@pytest.mark.parametrize("name", [*TAKEN, *REFUSED])
def test_what_comes_whole_needs_no_application(name: str) -> None:
    _, heard = both(Talk([ALL[name]]))
    assert heard.asked == 0
    assert heard.answers.startswith(b"HTTP/1.1 202" if name in TAKEN else b"HTTP/1.1 4")
    assert len(heard.stored) == (name in TAKEN)


def test_white_space_around_a_value_is_no_part_of_it() -> None:
    _, heard = both(
        Talk([post(b"bus-biz-id: \t42 \t", b"bus-header-x: a \tb "), post(b"bus-message-id: " + KNOWN + b" ")])
    )
    assert [found["biz_id"] for found in heard.stored] == ["42", ""]
    assert heard.stored[0]["headers"] == {"x": "a \tb"}
    assert heard.stored[1]["id"] == KNOWN.decode()


@pytest.mark.parametrize("name", OTHERS)
def test_everything_else_is_answered_by_the_application_as_before(name: str) -> None:
    without, heard = both(Talk([OTHERS[name]]))
    if name not in ("half a body", "no body"):
        assert heard.asked == without.asked


@pytest.mark.parametrize("how", [{}, {"slow": True}, {"stalls": True}], ids=str)
@pytest.mark.parametrize("second", ALL)
def test_between_two_messages(second: str, how: dict[str, bool]) -> None:
    both(Talk([PLAIN, ALL[second], PLAIN], **how))


@pytest.mark.parametrize("second", ALL)
def test_between_two_messages_in_one_piece(second: str) -> None:
    both(Talk([PLAIN + ALL[second] + PLAIN], slow=True))


@pytest.mark.parametrize("name", ["closed", "own field twice"])
@pytest.mark.parametrize("turns", [False, True], ids=["", "turns"])
def test_a_message_may_be_cut_anywhere(name: str, turns: bool) -> None:
    request = ALL[name]
    whole, _ = both(Talk([request]))
    for cut in range(1, len(request)):
        heard = direct(Talk([request[:cut], request[cut:]], turns))
        assert heard == whole._replace(asked=0)


@pytest.mark.parametrize("error", [SpoolFull("full"), SpoolFailed("EIO")])
@pytest.mark.parametrize("slow", [False, True])
def test_what_the_disk_refuses_is_told(error: SpoolError, slow: bool) -> None:
    _, heard = both(Talk([PLAIN, PLAIN], slow=slow, error=error))
    assert heard.answers.startswith(b"HTTP/1.1 507" if isinstance(error, SpoolFull) else b"HTTP/1.1 503")
    assert b"HTTP/1.1 202" in heard.answers
    assert len(heard.stored) == 1


@pytest.mark.parametrize("to", [b"/v1/messages/orders", b"/v1/messages/slow", b"/v1/messages/nowhere"])
@pytest.mark.parametrize("key", [b"none", b"a", b"Bearer a", b"bearer KEY-OF-orders", b"Bearer KEY-OF-slow"])
def test_keys_are_asked_for(to: bytes, key: bytes) -> None:
    _, heard = both(Talk([post(b"authorization: " + key, to=to)], keys=("orders", "slow")))
    may = to.rpartition(b"/")[2] == key.rpartition(b"-")[2]
    assert heard.answers.startswith(b"HTTP/1.1 202 " if may else b"HTTP/1.1 4")


def test_a_rate_that_is_used_up_is_counted_once() -> None:
    _, heard = both(Talk([post(to=b"/v1/messages/slow")] * 4))
    assert re.findall(rb"HTTP/1.1 (\d+)", heard.answers) == [b"202", b"202", b"429", b"429"]
    assert b"retry-after: " in heard.answers


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("request_", [PLAIN, REFUSED["not UTF-8"]], ids=["taken", "refused"])
def test_so_many_wait_behind_one_and_no_more(request_: bytes, slow: bool) -> None:
    _, heard = both(Talk([request_ * (MOST_BEHIND + 20)], slow=slow))
    assert heard.answers.count(b"HTTP/1.1") == MOST_BEHIND + 1


def test_an_idle_connection_is_kept_and_then_closed() -> None:
    _, heard = both(Talk([PLAIN]))
    assert heard.closed_at == 75.0


def test_the_deadline_is_that_of_a_request_that_does_not_come_whole() -> None:
    _, heard = both(Talk([PLAIN, PLAIN[:-1]]))
    assert heard.closed_at == pytest.approx(DEADLINE + 1.0)
    assert heard.answers.count(b"HTTP/1.1 202") == heard.answers.count(b"HTTP/1.1 408") == 1


@st.composite
def talks(draw: st.DrawFn) -> Talk:
    requests = draw(st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=5))
    sent = b"".join(ALL[name] for name in requests)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(sent) - 1))
        sent = sent[:at] + draw(st.binary(min_size=0, max_size=3)) + sent[at + draw(st.integers(0, 3)) :]
    cuts = sorted(draw(st.sets(st.integers(0, len(sent)), max_size=6)) | {0, len(sent)})
    pieces = [sent[start:end] for start, end in itertools.pairwise(cuts)]
    error = draw(st.sampled_from([None, None, SpoolFull("full")]))
    turns, slow, stalls = (draw(st.booleans()) for _ in range(3))
    return Talk([piece for piece in pieces if piece], turns, slow, stalls, error)


@given(talks())
def test_however_requests_are_cut_and_broken_the_answers_are_the_same(talk: Talk) -> None:
    both(talk)
