"""Figures as people read them."""

from __future__ import annotations

import pytest

from admin.pages.parts.figures import count, rate, share, size
from admin.pages.parts.times import took, waited


@pytest.mark.parametrize(
    ("number", "text"), [(None, "–"), (0, "0"), (999, "999"), (1000, "1\u202f000"), (1234567, "1\u202f234\u202f567")]
)
def test_counts(number: float | None, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(("number", "text"), [(None, "–"), (0, "0"), (0.018, "0.02"), (1200.4, "1\u202f200")])
def test_rates(number: float | None, text: str) -> None:
    assert rate(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (1, "100 %"), (0.99999, "> 99.99 %"), (0.1234, "12.34 %"), (0, "0 %")],
)
def test_what_is_not_all_never_reads_as_all(number: float | None, text: str) -> None:
    assert share(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**60, "1048576 TiB")],
)
def test_sizes(number: float | None, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(None, "–"), (0.26, "0.3 ms"), (12.4, "12 ms"), (1500, "1.5 s"), (65_000, "1 min 5 s")]
)
def test_how_long_something_took(milliseconds: float | None, text: str) -> None:
    assert took(milliseconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.21, "4.2 s"), (59, "59 s"), (3_600, "1 h"), (3_725, "1 h 2 min"), (93_600, "1 d 2 h")]
)
def test_how_long_something_lasts(seconds: float, text: str) -> None:
    assert waited(seconds) == text
