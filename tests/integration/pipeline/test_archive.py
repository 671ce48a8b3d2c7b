"""Old messages leave the store for the lake: verified there, then dropped by the bus, wherever the job was killed."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bus.cli import run
from bus.clock import SystemClock
from bus.errors import ReceiverUnavailable
from pipeline.commands import archiving
from pipeline.commands.archiving import ArchiveResult, archive
from pipeline.errors import JobFailed
from pipeline.jobs.archive import LINE
from pipeline.schemas import MESSAGES
from tests.harness.archived_bus import Place
from tests.harness.bus_process import run_bus
from tests.harness.old_messages import made, send
from tests.harness.waiting import wait_until

COUNT = 40


def states(found: list[ArchiveResult]) -> list[str]:
    return [each.state for each in found]


def test_what_is_archived_is_whole_and_gone_from_the_store(spark: SparkSession, embedded: Place) -> None:
    old = made(COUNT, 20, SystemClock().now(), ("orders", "bills"))
    young = made(3, 2, SystemClock().now())
    embedded.deliver(old + young)
    (found,) = archive(spark, embedded.options)
    assert (found.state, found.messages, found.deliveries) == ("dropped", COUNT, COUNT)
    assert not any(embedded.has(each.id) for each in old[:5])
    assert all(embedded.has(each.id) for each in young)
    kept = embedded.archived(spark)
    assert {id_: row.body for id_, row in kept.items()} == {each.id: each.body for each in old}
    first = kept[old[1].id]
    assert (first.biz_id, first.key, first.headers, first.content_type) == (
        "A-1",
        "k1",
        {"x-place": "A-1"},
        "application/x-test",
    )
    assert [(each.status, len(each.attempts)) for each in first.deliveries] == [("delivered", 1)]
    (manifest,) = embedded.lake.manifests(LINE)
    assert len(manifest.tables[MESSAGES.name]) == 4  # two hours, two destinations
    for file in manifest.tables[MESSAGES.name]:
        assert hashlib.sha256(embedded.lake.storage.read(file.path)).hexdigest() == file.sha256
    assert archive(spark, embedded.options) == []


def test_who_looks_for_an_archived_message_is_told_how_to_read_it(
    spark: SparkSession, embedded: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    (old,) = made(1, 20, SystemClock().now())
    embedded.deliver([old])
    assert states(archive(spark, embedded.options)) == ["dropped"]
    looked = run_bus("trace", old.id, env={"BUS_URL": embedded.bus.url})
    assert looked.returncode == 1
    assert "the messages of its day were archived" in looked.stderr
    command = f"pipeline find {old.id} --lake {embedded.lake.storage.root}"
    assert f"bus {command}" in looked.stderr
    searched = run_bus("search", "--ref", old.id, env={"BUS_URL": embedded.bus.url})
    assert "archived days were not searched" in searched.stderr
    capsys.readouterr()
    assert run([*command.split(), "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["id"], item["biz_id"], item["deliveries"][0]["status"]) == (old.id, old.biz_id, "delivered")


@pytest.mark.proof
def test_a_run_that_died_before_the_drop_is_gone_on_with(spark: SparkSession, embedded: Place) -> None:
    old = made(6, 20, SystemClock().now())
    embedded.deliver(old)
    assert states(archive(spark, embedded.options._replace(dry_run=True))) == ["counted"]
    assert embedded.lake.manifests() == []
    with pytest.raises(ReceiverUnavailable):  # nobody answers: as if it were killed after it verified
        archive(spark, embedded.options._replace(url="http://127.0.0.1:9"))
    assert embedded.has(old[0].id)
    written = embedded.lake.manifests(LINE)
    assert states(archive(spark, embedded.options)) == ["dropped"]
    assert embedded.lake.manifests(LINE) == written
    assert set(embedded.archived(spark)) == {each.id for each in old}


def test_a_damaged_file_is_found_before_the_drop(spark: SparkSession, embedded: Place) -> None:
    old = made(6, 20, SystemClock().now())
    embedded.deliver(old)
    assert states(archive(spark, embedded.options._replace(keep=True))) == ["archived"]
    (manifest,) = embedded.lake.manifests(LINE)
    file = Path(embedded.lake.storage.url(manifest.tables[MESSAGES.name][0].path))
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(JobFailed, match="not the file that was written"):
        archive(spark, embedded.options)
    assert embedded.has(old[0].id)
    Path(embedded.lake.storage.url(embedded.lake.manifest_path(manifest))).unlink()
    assert states(archive(spark, embedded.options)) == ["dropped"]
    assert {bytes(row.body) for row in embedded.archived(spark).values()} == {each.body for each in old}


@pytest.mark.proof
def test_what_changes_meanwhile_stays_and_is_archived_anew(
    spark: SparkSession, embedded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = made(6, 20, SystemClock().now())
    embedded.deliver(old)
    verify = archiving.verify

    def verified_then_resent(*given: Any) -> Any:
        contents = verify(*given)
        answer = embedded.bus.admin.call("POST", f"/api/v1/messages/{old[0].id}/resend", json={})
        assert answer.status_code == 202
        embedded.bus.admin.wait_drained("orders", [old[0].id], within=60)
        return contents

    monkeypatch.setattr(archiving, "verify", verified_then_resent)
    assert states(archive(spark, embedded.options)) == ["changed"]
    assert embedded.has(old[0].id)
    monkeypatch.undo()
    assert states(archive(spark, embedded.options)) == ["dropped"]
    (manifest,) = embedded.lake.manifests(LINE)  # the first one is replaced
    assert manifest.rows(MESSAGES.name) == 6
    resent = embedded.archived(spark)[old[0].id]
    assert [attempt.generation for attempt in resent.deliveries[0].attempts] == [0, 1]


@pytest.mark.proof
def test_a_day_that_an_earlier_run_had_dropped_meanwhile_is_told_as_dropped(
    spark: SparkSession, embedded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bus goes on with a drop whose caller was killed."""
    old = made(6, 20, SystemClock().now())
    embedded.deliver(old)
    (partition,) = archiving.due(embedded.store, SystemClock().now(), 14)
    verify = archiving.verify

    def verified_then_dropped(*given: Any) -> Any:
        contents = verify(*given)
        body = contents._asdict()
        assert embedded.bus.admin.call("POST", f"/api/v1/partitions/{partition.name}/drop", json=body).is_success
        return contents

    monkeypatch.setattr(archiving, "verify", verified_then_dropped)
    assert states(archive(spark, embedded.options)) == ["dropped"]
    written = embedded.lake.manifests(LINE)
    monkeypatch.setattr(archiving, "due", lambda *_: [partition])  # listed before it went
    assert states(archive(spark, embedded.options)) == ["empty"]
    assert embedded.lake.manifests(LINE) == written
    assert set(embedded.archived(spark)) == {each.id for each in old}


@pytest.mark.proof
def test_a_day_that_comes_again_is_added_and_then_compacted(spark: SparkSession, embedded: Place) -> None:
    first, later = (made(3, 20, SystemClock().now()) for _ in range(2))
    for part in (first, later):
        embedded.deliver(part)
        assert states(archive(spark, embedded.options)) == ["dropped"]
    assert {bytes(row.body) for row in embedded.archived(spark).values()} == {each.body for each in first + later}
    (manifest,) = embedded.lake.manifests(LINE)
    assert len(manifest.replaces) == 2


@pytest.mark.proof
def test_messages_that_all_come_again_after_the_drop_have_two_histories(spark: SparkSession, embedded: Place) -> None:
    old = made(3, 20, SystemClock().now())
    for _life in range(2):
        embedded.deliver(old)
        assert states(archive(spark, embedded.options)) == ["dropped"]
        embedded.bus.stop()
        embedded.bus.start()  # it forgets which ids came lately
    rows = embedded.lake.read(spark, MESSAGES, line=LINE).collect()
    assert Counter(row.id for row in rows) == {each.id: 2 for each in old}
    assert len({row.received_at for row in rows}) > 1


def test_a_day_in_which_something_is_open_stays(spark: SparkSession, embedded: Place) -> None:
    old = made(3, 20, SystemClock().now())
    embedded.deliver(old[:2])
    embedded.bus.admin.pause("orders", "s", paused=True)
    send(embedded.bus, old[2:])
    wait_until(lambda: embedded.has(old[2].id), within=60, what="the message is in the store")
    (found,) = archive(spark, embedded.options)
    assert (found.state, found.messages, found.unfinished) == ("unfinished", 3, 1)
    assert embedded.lake.manifests() == []
