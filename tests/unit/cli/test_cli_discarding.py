"""Dropping what a subscription has not got: counted, asked about, and followed to its end."""

from __future__ import annotations

from typing import Any

import pytest

from bus.cli import jobs
from tests.harness.fake_bus import Asked, FakeBus
from tests.unit.cli.conftest import Cli

JOB = "019a0000-0000-7000-8000-000000000001"
FROZEN = {"destination": "orders", "subscription": "coupons", "status": "dead", "to": "2026-01-31T12:00:00.000Z"}
COUNTS = dict.fromkeys(("selected", "discarded", "delivered", "skipped", "missing", "canceled", "failed", "waiting"), 0)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0)


@pytest.fixture
def preview(bus: FakeBus) -> FakeBus:
    """Answer as a bus that has two such deliveries."""

    def answer(asked: Asked) -> Any:
        if asked.body.get("dry_run"):
            return {"count": 2, "sample": [], "filter": FROZEN, "complete": True, "counted_since": None}
        return 202, {"id": JOB}

    bus.on("POST", "/api/v1/discards", answer)
    ends = COUNTS | {"selected": 2, "waiting": 2}, COUNTS | {"selected": 2, "discarded": 2}
    path = f"/api/v1/resends/{JOB}"
    bus.on(
        "GET", path, *({"state": state, "counts": one} for state, one in zip(("sending", "done"), ends, strict=True))
    )
    return bus


def test_a_backlog_is_dropped_and_followed(cli: Cli, preview: FakeBus) -> None:
    ran = cli("discard", "orders", "coupons", "--status", "dead", "--reason", "void", "--yes")
    assert (ran.code, ran.err) == (0, f"job {JOB}\n")
    assert "2 selected, 2 discarded" in ran.out
    assert "failed" not in ran.out
    chosen = {"destination": "orders", "subscription": "coupons", "status": "dead"}
    assert preview.asked[0].body == {"filter": chosen, "reason": "void"}
    assert [asked.method for asked in preview.asked] == ["POST", "GET", "GET"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_dry_run_changes_nothing(cli: Cli, preview: FakeBus, options: tuple[str, ...]) -> None:
    ran = cli("discard", "orders", "coupons", "--dry-run", *options)
    assert ran.code == 0
    assert ran.json["count"] == 2 if options else "2 deliveries would be discarded" in ran.out
    assert [asked.body["dry_run"] for asked in preview.asked] == [True]


def test_where_nobody_can_be_asked_nothing_is_dropped(cli: Cli, preview: FakeBus) -> None:
    ran = cli("discard", "orders", "coupons")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "2 deliveries of orders/coupons will be canceled; not delivered unless resent",
        "error: nothing was discarded: no terminal for the confirmation (hint: confirm with --yes)",
    ]
    assert len(preview.asked) == 1


def test_what_could_not_be_dropped_in_time_or_was_left_is_a_1(cli: Cli, preview: FakeBus) -> None:
    counts = COUNTS | {"selected": 3, "discarded": 1, "canceled": 2}
    preview.on("GET", f"/api/v1/resends/{JOB}", {"state": "canceled", "counts": counts})
    assert cli("discard", "orders", "coupons", "--yes").code == 1
    preview.on("GET", f"/api/v1/resends/{JOB}", {"state": "sending", "counts": COUNTS | {"selected": 3, "waiting": 3}})
    assert cli("discard", "orders", "coupons", "--yes", "--wait", "0").code == 0
    assert cli("discard", "orders", "coupons", "--yes", "--wait", "0.01").code == 1


@pytest.mark.parametrize("arguments", [("orders",), (), ("orders", "coupons", "--from", "soon")])
def test_what_is_not_a_filter_is_a_usage_error(cli: Cli, bus: FakeBus, arguments: tuple[str, ...]) -> None:
    assert cli("discard", *arguments, "--yes").code == 2
    assert bus.asked == []
