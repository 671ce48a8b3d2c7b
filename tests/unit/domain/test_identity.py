"""Message ids carry their time, sort by it, and are spelt one way."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.identity import id_floor, id_time, ids_of_trace, new_id, parse_id, trace_number

times = st.integers(0, (1 << 48) - 1)


@given(times, st.binary(min_size=10, max_size=10))
def test_an_id_is_a_uuid_of_version_7_that_carries_its_time(time: int, noise: bytes) -> None:
    made = new_id(time, noise)
    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (7, uuid.RFC_4122)
    assert parse_id(made) == made
    assert id_time(made) == time


@given(times, times)
def test_ids_sort_by_time(earlier: int, later: int) -> None:
    earlier, later = sorted((earlier, later))
    assert id_floor(earlier) <= new_id(earlier) <= new_id(later, b"\xff" * 10)
    if earlier < later:
        assert new_id(earlier, b"\xff" * 10) < id_floor(later)


def test_ids_of_one_moment_differ() -> None:
    assert len({new_id(1) for _ in range(1000)}) == 1000


@given(times, st.binary(min_size=10, max_size=10))
def test_other_spellings_of_an_id_are_the_same_id(time: int, noise: bytes) -> None:
    made = new_id(time, noise)
    spellings = (made.upper(), made.replace("-", ""), f"{{{made}}}", f"urn:uuid:{made}")
    assert {parse_id(text) for text in spellings} == {made}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0",
        str(uuid.UUID(int=0)),
        "5c87e005-ffb7-4596-a998-39427003e27b",  # version 4
        new_id(1, bytes(10))[:-1],
        new_id(1, bytes(10)) + "0",
        new_id(1, bytes(10)) + "\n",
        "é" * 36,
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"UUID|hexadecimal|invalid"):
        parse_id(text)


@given(times, st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_an_id_is_found_by_its_trace_number(time: int, noise: bytes, other: bytes) -> None:
    made = new_id(time, noise)
    number = trace_number(made)
    assert 0 < number < 2**64
    found = ids_of_trace(number)
    assert found is not None
    assert found[0] <= made <= found[1]
    stranger = new_id(time, other)
    assert (found[0] <= stranger <= found[1]) is (trace_number(stranger) == number)


def test_the_trace_number_is_the_beginning_of_the_id_without_its_version() -> None:
    assert trace_number("0190a7f0-e1c2-7abc-9def-0123456789ab") == 0x0190A7F0E1C2ABC9
    assert ids_of_trace(0x0190A7F0E1C2ABC9) == (
        "0190a7f0-e1c2-7abc-9000-000000000000",
        "0190a7f0-e1c2-7abc-9fff-ffffffffffff",
    )
    assert ids_of_trace(0x0190A7F0E1C2ABC1) is None  # no id has this variant
    assert ids_of_trace(2**64) is None
