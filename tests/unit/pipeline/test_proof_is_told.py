"""Output and exit code of ``reconcile``: the proof always, whatever comes of its repair."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bus.cli import run
from pipeline.commands import reconciling, repairing
from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.reports.summary import ACCEPT, HOPS, Finding, Summary
from pipeline.schemas import BLOCKS
from tests.harness.fake_bus import FakeBus
from tests.harness.made_lake import put
from tests.harness.process import free_port

LOST = Finding("019aa4b6-44fb-7408-8ebf-8662fce18574", "orders", "shop", "deliver", "2026-01-31T12:00:00Z", "final")
OTHER = Finding("019aa4b6-44fb-7408-8ebf-8662fce18575", "mails", "shop", "deliver", "2026-01-31T12:00:00Z", "final")


AGAINST = msgspec.structs.replace(LOST, finding="store_behind", store_status="pending")


def summary(
    verdict: str, *missing: Finding, contradicted: Sequence[Finding] = (), held: Sequence[Finding] = ()
) -> Summary:
    hops: dict[str, dict[str, Any]] = {name: {"states": {}, "verdicts": {}} for name in HOPS}
    hops[ACCEPT]["missing"] = sum(not each.subscription for each in missing)
    return Summary(
        verdict,
        "2026-01-31T13:00:00Z",
        None,
        False,
        0,
        0,
        hops,
        [],
        0,
        0,
        list(missing),
        list(contradicted),
        [],
        list(held),
    )


@pytest.fixture
def lake(tmp_path: Path, without_spark: None) -> str:
    return put(Lake(Storage(str(tmp_path / "lake"))), READ_LINE, {BLOCKS: [{}]}).storage.root


def reconcile(monkeypatch: pytest.MonkeyPatch, lake: str, found: Summary, *options: str) -> int:
    """Run the command over what Spark would come to."""
    monkeypatch.setattr(reconciling, "summarized", lambda *_, **__: nullcontext(found))
    return run(["pipeline", "reconcile", "--lake", lake, *options])


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize(("verdict", "code"), [("proven", 0), ("missing", 1), ("unheard", 3)])
def test_the_exit_code_is_the_verdict(
    verdict: str, code: int, how: tuple[str, ...], lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reconcile(monkeypatch, lake, summary(verdict, *[LOST] * (code == 1)), *how) == code


def test_what_a_strict_order_holds_is_repaired_where_its_chain_lost_something(
    lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is called missing or held, so that what is repaired does not depend on when that is asked."""
    ordering = "/api/v1/destinations/{}/ordering"
    strict = [{"code": code, "ordering": "strict"} for code in ("orders", "mails")]
    bus.on("GET", "/api/v1/destinations", {"items": strict})
    bus.on("GET", ordering.format("orders"), {"gaps": [], "consume": [{"lost": True}]})
    bus.on("GET", ordering.format("mails"), {"gaps": [], "consume": [{"lost": False}]})
    found = summary("proven", held=[LOST, OTHER])
    assert reconcile(monkeypatch, lake, found, "--repair", "--url", bus.url, "--json") == 0
    assert bus.asked == []
    capsys.readouterr()
    assert reconcile(monkeypatch, lake, found, "--repair", "--reorder", "--url", bus.url, "--json") == 0
    (made,) = [asked for asked in bus.asked if asked.method == "POST"]
    assert made.body["deliveries"] == [{"id": LOST.id, "subscription": "shop"}]
    assert made.body["reorder"] is True
    assert "held" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_witnesses_that_contradict_each_other_have_an_exit_code_of_their_own(
    how: tuple[str, ...], lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reconcile(monkeypatch, lake, summary("contradicted", contradicted=[AGAINST]), *how) == 4
    told = capsys.readouterr().out
    assert AGAINST.id in told
    assert "store_behind" in told
    assert reconcile(monkeypatch, lake, summary("missing", LOST, contradicted=[AGAINST]), *how) == 1


def test_the_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "reconcile", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert all(code in told for code in ("Exit 0: ", " 1: ", " 3: ", " 4: "))


def test_a_proof_is_printed_before_a_bus_that_is_down_is_asked_to_repair(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert reconcile(monkeypatch, lake, summary("missing", LOST), "--repair", "--url", url) == 1
    told = capsys.readouterr()
    assert LOST.id in told.out
    assert "1 deliveries are missing" in told.out
    assert told.err.startswith("error: ")


def test_a_repair_that_failed_is_in_the_one_document(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert reconcile(monkeypatch, lake, summary("missing", LOST), "--repair", "--url", url, "--json") == 1
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert [each["id"] for each in document["missing"]] == [LOST.id]
    assert document["repair"]["error"] in told.err
    assert set(document["repair"]) == {"error", "hint", "jobs"}


@pytest.fixture
def bus() -> Iterator[FakeBus]:
    """It takes a job for each destination, of which the first is done at once, and the other when it is asked again."""
    with FakeBus() as made:
        made.on("POST", "/api/v1/resends/deliveries", {"id": "job-1"}, {"id": "job-2"})
        made.on("GET", "/api/v1/resends/job-1", job("done", selected=1, delivered=1, waiting=0))
        made.on(
            *("GET", "/api/v1/resends/job-2"),
            job("running", selected=1, delivered=0, waiting=1),
            job("done", selected=1, delivered=1, waiting=0),
        )
        yield made


def job(state: str, **counts: int) -> dict[str, Any]:
    return {"state": state, "counts": counts}


def test_a_job_that_has_ended_is_not_asked_for_again_and_counts(
    lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--repair", "--url", bus.url, "--json")
    assert reconcile(monkeypatch, lake, summary("missing", LOST, OTHER), *options) == 0
    repaired = json.loads(capsys.readouterr().out)["repair"]
    assert repaired["jobs"] == ["job-1", "job-2"]
    assert repaired["counts"] == {"selected": 2, "delivered": 2, "waiting": 0}
    assert [asked.path[-5:] for asked in bus.asked if asked.method == "GET"] == ["job-1", "job-2", "job-2"]


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_repair_that_is_broken_off_tells_its_proof_and_what_goes_on(
    how: tuple[str, ...], lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(repairing, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupt))
    found = summary("missing", LOST, OTHER)
    assert reconcile(monkeypatch, lake, found, "--repair", "--url", bus.url, *how) == 130
    told = capsys.readouterr()
    assert LOST.id in told.out
    if how:
        assert json.loads(told.out)["repair"]["jobs"] == ["job-1", "job-2"]
    else:
        assert "the bus goes on with job-1, job-2" in told.err


TOLD = "/api/v1/findings/proof"
UNACCEPTED = msgspec.structs.replace(LOST, subscription="", minute="2026-01-31T12:05:00Z")


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_the_bus_is_told_how_many_are_missing_of_each_subscription(
    how: tuple[str, ...], lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.on("PUT", TOLD, {})
    later = msgspec.structs.replace(LOST, minute="2026-01-31T12:02:00Z")
    found = summary("missing", LOST, later, UNACCEPTED, contradicted=[AGAINST])
    options = ("--from", "2026-01-31T10:00:00Z", "--tell", "--url", bus.url, *how)
    assert reconcile(monkeypatch, lake, found, *options) == 1
    (asked,) = bus.asked
    assert asked.body == {
        "checked": "2026-01-31T13:00:00Z",
        "since": "2026-01-31T10:00:00+00:00",
        "before": None,
        "with_store": False,
        "missing": 3,
        "contradicted": 1,
        "items": [
            {
                "destination": "orders",
                "subscription": "shop",
                "missing": 2,
                "contradicted": 1,
                "since": "2026-01-31T12:00:00Z",
                "until": "2026-01-31T12:02:00Z",
            },
            {
                "destination": "orders",
                "subscription": "",
                "missing": 1,
                "contradicted": 0,
                "since": "2026-01-31T12:05:00Z",
                "until": "2026-01-31T12:05:00Z",
            },
        ],
    }
    told = capsys.readouterr().out
    assert json.loads(told)["told"] is True if how else told.endswith("the bus was told\n")


@pytest.mark.parametrize(("verdict", "code", "times"), [("proven", 0, 1), ("contradicted", 4, 1), ("unheard", 3, 0)])
def test_that_nothing_is_missing_is_told_unless_nobody_knows(
    verdict: str, code: int, times: int, lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.on("PUT", TOLD, {})
    against = [AGAINST] if verdict == "contradicted" else []
    found = summary(verdict, contradicted=against)
    assert reconcile(monkeypatch, lake, found, "--tell", "--url", bus.url) == code
    assert [asked.body["missing"] for asked in bus.asked] == [0] * times


def test_what_was_repaired_is_not_told_as_missing(lake: str, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("PUT", TOLD, {})
    options = ("--repair", "--tell", "--url", bus.url)
    assert reconcile(monkeypatch, lake, summary("missing", LOST, OTHER), *options) == 0
    assert (bus.asked[-1].path, bus.asked[-1].body["missing"]) == (TOLD, 0)
    bus.on("GET", "/api/v1/resends/job-1", job("done", selected=1, missing=1))
    bus.on("POST", "/api/v1/resends/deliveries", {"id": "job-1"})
    assert reconcile(monkeypatch, lake, summary("missing", LOST), *options) == 1
    assert (bus.asked[-1].path, bus.asked[-1].body["missing"]) == (TOLD, 1)


@pytest.mark.parametrize("how", [(), ("--json",)])
def test_a_repair_that_is_refused_does_not_keep_it_from_being_told(
    how: tuple[str, ...], lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeBus() as bus:
        bus.on("POST", "/api/v1/resends/deliveries", (422, {"title": "Invalid", "detail": "it keeps a strict order"}))
        bus.on("PUT", TOLD, {})
        options = ("--repair", "--tell", "--url", bus.url, *how)
        assert reconcile(monkeypatch, lake, summary("missing", LOST), *options) == 1
        assert bus.asked[-1].body["missing"] == 1
    told = capsys.readouterr()
    assert "it keeps a strict order" in told.err
    if how:
        document = json.loads(told.out)
        assert (document["told"], document["repair"]["jobs"]) == (True, [])


@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("verdict", ["proven", "missing"])
def test_a_bus_that_could_not_be_told_is_an_error_behind_the_proof(
    verdict: str,
    how: tuple[str, ...],
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = summary(verdict, *[LOST] * (verdict == "missing"))
    with FakeBus() as bus:
        bus.on("PUT", TOLD, (403, {"title": "Forbidden", "detail": "ops may not resend"}))
        assert reconcile(monkeypatch, lake, found, "--tell", "--url", bus.url, *how) == 1
    told = capsys.readouterr()
    assert "the report did not reach the bus, which keeps the one before: ops may not resend" in told.err
    if how:
        document = json.loads(told.out)
        assert (document["verdict"], document["told"]["error"] in told.err) == (verdict, True)
    else:
        assert "hop\tbuckets" in told.out


def test_that_neither_was_done_is_said_of_both(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert reconcile(monkeypatch, lake, summary("missing", LOST), "--repair", "--tell", "--url", url) == 1
    told = capsys.readouterr().err
    assert "the report did not reach the bus" in told
    assert "error: cannot reach" in told
