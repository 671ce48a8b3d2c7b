"""The kill proof is trusted because it catches bugs that were planted on purpose."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.harness.http import PLAIN
from tests.harness.kills import KillRun, Plan
from tests.harness.planted import BUGS
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess

PLAN = Plan(messages=900, rate=300, kills=3, seed=7, drain_within=5)


OF_PERMITS = "permits-of-two"


@pytest.mark.proof
@pytest.mark.parametrize("bug", sorted(BUGS.keys() - {OF_PERMITS}))
def test_a_planted_bug_is_caught(tmp_path: Path, bug: str) -> None:
    found = KillRun(tmp_path, PLAN, planted=bug).run()
    assert not found.passed
    assert any("lost" in complaint for complaint in found.complaints), found.complaints


@pytest.mark.proof
def test_permits_that_two_processes_own_are_caught(tmp_path: Path) -> None:
    instead = ("tests.harness.planted", OF_PERMITS)
    with SubscriberProcess(tmp_path) as subscriber, ProcessGroup(tmp_path / "data", 2, instead=instead) as bus:
        subscriber.configure("/slow=delay:0.05")
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "slow", subscriber.url("/slow"), max_concurrency=1)
        ids = [
            httpx.post(f"{bus.url}/v1/messages/orders", json={}, timeout=30, **PLAIN).json()["id"] for _ in range(40)
        ]
        bus.admin.wait_drained("orders", ids, within=60)
        assert max(call.in_flight for call in subscriber.calls("/slow")) == 2
