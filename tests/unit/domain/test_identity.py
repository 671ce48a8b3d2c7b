"""Message ids carry their time, sort by it, and are spelt one way."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.identity import id_floor, id_time, new_id, parse_id

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
