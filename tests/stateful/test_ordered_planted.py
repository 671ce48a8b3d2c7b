"""Planted bugs in the order of keys, each of which the machine of ordered deliveries has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bus.domain.ordering.key_order import KeyOrder
from dispatcher.ordering.in_order import InOrder
from tests.stateful.test_delivery import SETTINGS
from tests.stateful.test_ordered_delivery import OrderedDeliveryMachine


def reads_no_rows_at_the_start(patch: pytest.MonkeyPatch) -> None:
    async def restore(_: InOrder) -> None:
        """Take no notice."""

    patch.setattr(InOrder, "_restore", restore)


def lets_all_of_a_key_out(patch: pytest.MonkeyPatch) -> None:
    plain = KeyOrder._next

    def following(self: Any, key: str, found: Any) -> list[Any]:
        found.is_out = False
        return plain(self, key, found)

    patch.setattr(KeyOrder, "_next", following)


def lets_others_pass_what_failed(patch: pytest.MonkeyPatch) -> None:
    plain = KeyOrder.held_up

    def held_up(self: Any, key: str, item: Any, until: float) -> None:
        plain(self, key, item, until)
        found = self._keys[key]
        if len(found.waiting) > 1 and not found.has_rows:
            found.waiting.rotate(-1)

    patch.setattr(KeyOrder, "held_up", held_up)


@pytest.mark.parametrize(
    "plant",
    [
        reads_no_rows_at_the_start,
        lets_all_of_a_key_out,
        lets_others_pass_what_failed,
    ],
)
def test_the_machine_finds(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    many = settings(SETTINGS, max_examples=1000, derandomize=True, database=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(OrderedDeliveryMachine, settings=many)
