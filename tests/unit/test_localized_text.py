"""A sentence is English by itself, and can be taken apart."""

from __future__ import annotations

import msgspec
import pytest

from bus.errors import AccessDenied, BusError, Conflict, InvalidMessage, ReceiverError
from bus.localized_text import LocalizedText, joined, localized


def test_it_is_english_with_its_values_filled_in() -> None:
    inner = localized("{n} of {all}", n=1, all="{x}")
    assert str(localized("it has {part}: {why}", part=inner, why="{part}")) == "it has 1 of {x}: {part}"


def test_a_template_without_values_stays_as_it_is() -> None:
    assert str(localized("100 {%}")) == "100 {%}"


def test_it_is_written_as_template_and_values() -> None:
    found = msgspec.to_builtins(localized("a {b}", b=localized("c")))
    assert found == {"template": "a {b}", "values": {"b": {"template": "c", "values": {}}}}


@pytest.mark.parametrize("kind", [BusError, Conflict, InvalidMessage, AccessDenied, ReceiverError])
def test_an_error_says_it_in_english_and_keeps_it(kind: type[BusError]) -> None:
    what, step = localized("{name} is away", name="it"), localized("wait")
    error = kind(what, hint=step)
    assert (str(error), error.hint) == ("it is away", "wait")
    assert (error.said, error.hint_said) == (what, step)
    plain = kind("so", hint="do")
    assert (plain.said, plain.hint_said, str(plain), plain.hint) == ("so", "do", "so", "do")


def test_however_many_troubles_are_joined_they_can_be_told_and_sent() -> None:
    whole = joined(localized("destination {name} is refused", name=str(number)) for number in range(10_000))
    assert str(whole).startswith("destination 0 is refused; destination 1 is refused")
    assert str(whole).endswith("and 9990 more")
    assert str(msgspec.json.decode(msgspec.json.encode(whole), type=LocalizedText)) == str(whole)
    assert joined([]) == ""
    assert joined(["one"]) == "one"
