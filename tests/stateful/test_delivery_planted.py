"""Planted bugs in the way of a message, each of which the delivery machine has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.testing.store import MemoryStore
from dispatcher.outcomes import OutcomeLog
from dispatcher.worker import SubscriptionWorker
from tests.stateful.test_delivery import SETTINGS, DeliveryMachine


def acks_before_the_outcome(patch: pytest.MonkeyPatch) -> None:
    plain = OutcomeLog.record

    class Nobody:
        def recorded(self, tokens: Sequence[object]) -> None:
            """Take no notice."""

    def record(self: OutcomeLog, outcome: Outcome, owner: Any, token: object) -> None:
        owner.recorded([token])
        plain(self, outcome, Nobody(), token)

    patch.setattr(OutcomeLog, "record", record)
    # The transport has passed what was acked, so that nothing but the outcome could carry it on.
    patch.setattr("compensator.stuck.StuckSearch._claim", _claims_nothing)


async def _claims_nothing(*_: object) -> int:
    return 0


def makes_no_row(patch: pytest.MonkeyPatch) -> None:
    plain = MemoryStore._follow

    def follow(self: MemoryStore, outcome: Outcome) -> None:
        if outcome.status is not Status.RETRYING:
            plain(self, outcome)

    patch.setattr(MemoryStore, "_follow", follow)


def looks_for_nothing_stuck(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("compensator.stuck.StuckSearch._claim", _claims_nothing)


def lets_late_outcomes_win(patch: pytest.MonkeyPatch) -> None:
    plain = MemoryStore.write

    async def write(self: MemoryStore, writes: Sequence[Message | Outcome]) -> None:
        await plain(self, writes)
        for one in writes:
            if isinstance(one, Outcome):
                self._traces[one.message_id].deliveries[one.subscription].status = one.status

    patch.setattr(MemoryStore, "write", write)


def takes_one_permit_too_many(patch: pytest.MonkeyPatch) -> None:
    plain = SubscriptionWorker._spawn

    def spawn(self: SubscriptionWorker) -> None:
        plain(self)
        if (
            self._group is not None
            and self._pending.waiting
            and not self._stopping.is_set()
            and not self.subscription.paused
        ):
            self._start(self._group, self._pending.waiting.popleft())

    patch.setattr(SubscriptionWorker, "_spawn", spawn)
    patch.setattr(
        SubscriptionWorker, "_may_start", lambda self: bool(self._pending.waiting) and not self._stopping.is_set()
    )


@pytest.mark.parametrize(
    "plant",
    [acks_before_the_outcome, makes_no_row, looks_for_nothing_stuck, lets_late_outcomes_win, takes_one_permit_too_many],
)
def test_the_machine_finds(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    many = settings(SETTINGS, max_examples=1000, derandomize=True, database=None, phases=[Phase.generate])
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(DeliveryMachine, settings=many)
