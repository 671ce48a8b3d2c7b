"""Jobs that are paused, resumed, canceled and run again from the command line."""

from __future__ import annotations

import json

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

COUNTS = {"selected": 3, "waiting": 2, "delivered": 1, "failed": 0, "skipped": 0, "missing": 0, "canceled": 0}
JOB = {"id": "j", "state": "paused", "counts": COUNTS}
LINE = "j is paused: 3 selected, 2 waiting, 1 delivered, 0 failed, 0 skipped, 0 missing, 0 canceled\n"


@pytest.mark.parametrize(
    ("option", "method", "path"),
    [
        ("--pause", "POST", "/api/v1/resends/j/pause"),
        ("--resume", "POST", "/api/v1/resends/j/resume"),
        ("--cancel", "DELETE", "/api/v1/resends/j"),
    ],
)
def test_a_job_is_steered(cli: Cli, bus: FakeBus, option: str, method: str, path: str) -> None:
    bus.on(method, path, JOB)
    ran = cli("resend", option, "j")
    assert (ran.code, ran.out) == (0, LINE)
    assert cli("resend", option, "j", "--json").json == JOB


def test_a_job_is_resumed_at_another_rate(cli: Cli, bus: FakeBus) -> None:
    bus.on("PATCH", "/api/v1/resends/j", JOB)
    bus.on("POST", "/api/v1/resends/j/resume", JOB)
    assert cli("resend", "--resume", "j", "--rate", "5").code == 0
    assert [(asked.method, json.loads(asked.content or b"null")) for asked in bus.asked] == [
        ("PATCH", {"rate": 5.0}),
        ("POST", None),
    ]


def test_what_failed_is_run_again_and_followed(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends/j/rerun", (202, {"id": "k", "rerun_of": "j"}))
    bus.on("GET", "/api/v1/resends/k", {"id": "k", "state": "done", "counts": {**COUNTS, "waiting": 0, "delivered": 3}})
    ran = cli("resend", "--rerun", "j", "--rate", "5", "--reason", "mended")
    assert ran.code == 0
    assert "3 delivered" in ran.out
    assert bus.asked[0].body == {"rate": 5.0, "reason": "mended"}


def test_what_is_resent_out_of_a_strict_order_is_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends/j/rerun", (202, {"id": "k", "rerun_of": "j"}))
    bus.on("POST", "/api/v1/resends", (202, {"id": "k"}))
    bus.on("POST", "/api/v1/messages/m/resend", (202, {"id": "k", "subscriptions": []}))
    bus.on("GET", "/api/v1/resends/k", {"id": "k", "state": "done", "counts": {**COUNTS, "waiting": 0, "delivered": 3}})
    cli("resend", "--rerun", "j", "--reorder")
    cli("resend", "--destination", "a", "--from", "2h", "--to", "1h", "--reorder")
    cli("resend", "m", "--reorder")
    assert [asked.body["reorder"] for asked in bus.asked if asked.method == "POST"] == [True, True, True]


@pytest.mark.parametrize(
    "given", [("--pause", "j", "--cancel", "j"), ("--pause", "j", "x"), ("--cancel", "j", "--destination", "a")]
)
def test_one_job_and_nothing_else(cli: Cli, bus: FakeBus, given: tuple[str, ...]) -> None:
    ran = cli("resend", *given)
    assert (ran.code, bus.asked) == (2, [])


def test_a_count_that_is_not_complete_says_so(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends", {"count": 7, "sample": [], "complete": False, "counted_since": "T"})
    ran = cli("resend", "--destination", "a", "--from", "2h", "--to", "1h", "--dry-run")
    assert "7 deliveries would be resent\n" in ran.out
    assert ran.err == "messages before T are not counted\n"


def test_a_refusal_is_told(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/api/v1/resends/j/pause", (409, {"detail": "resend j is done"}))
    ran = cli("resend", "--pause", "j")
    assert (ran.code, ran.err) == (1, "error: resend j is done\n")
