"""The stream of rollups tells Prometheus what it does, and how fresh its rollups are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench import freshness
from bench.run import QUICK, Run
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from tests.harness.freshness import aged_batches, share_of
from tests.harness.http import PLAIN
from tests.harness.jobs import pipeline
from tests.harness.process import Child, free_port, module
from tests.harness.trace_traffic import Traffic, write_traffic
from tests.harness.waiting import wait_until

WITHIN = 300.0
EVENTS = 20_000
Samples = dict[tuple[str, str], float]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def stream(tmp_path: Path, port: int) -> Iterator[Child]:
    (tmp_path / "events").mkdir()
    options = ("--events", tmp_path / "events", "--lake", tmp_path / "lake", "--every", 1, "--batch", 1)
    argv = module("pipeline", "rollup", *options, "--json", "--memory", "1g", "--metrics-port", port)
    with Child(argv, log=tmp_path / "stream.log") as child:
        yield child


def scrape(port: int) -> Samples:
    """Return the samples by name and the value of their only label."""
    try:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", **PLAIN).raise_for_status().text
    except httpx.TransportError:
        return {}
    families = text_string_to_metric_families(text)
    return {(each.name, "".join(each.labels.values())): each.value for family in families for each in family.samples}


def labelled(samples: Samples, name: str) -> Counter[str]:
    return Counter({label: int(value) for (found, label), value in samples.items() if found == name and value})


def lines_of(traffic: Traffic) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in traffic.folder.glob("*.jsonl"))


@pytest.mark.proof
def test_metrics_agree_with_what_was_rolled_up(stream: Child, port: int, tmp_path: Path) -> None:
    traffic = write_traffic(tmp_path / "made", EVENTS, files=3)
    for path in traffic.folder.iterdir():
        path.rename(tmp_path / "events" / path.name)
    traffic.folder = tmp_path / "events"
    lines = lines_of(traffic)

    def read_all() -> Samples | None:
        stream.check_running()
        samples = scrape(port)
        return samples if samples.get(("bus_rollup_rows_total", "")) == lines else None

    samples = wait_until(read_all, within=WITHIN, what="all lines are read", every=0.5, state=stream.output)
    lake = Lake(Storage(str(tmp_path / "lake")))
    good = sum(counts[0] for counts in traffic.counts.values())
    misdated = {verdict: traffic.side[verdict] for verdict in ("late", "future")}
    assert labelled(samples, "bus_rollup_events_total") == Counter(good=good, **misdated)
    assert labelled(samples, "bus_rollup_side_rows_total") == traffic.side
    assert samples["bus_rollup_batches_total", ""] == len(lake.manifests(READ_LINE))
    assert samples["bus_rollup_batch_seconds_count", ""] == len(lake.manifests(READ_LINE))
    assert samples["bus_rollup_dropped_by_watermark_total", ""] == 0
    assert samples["bus_rollup_lag", ""] == 0
    assert samples["bus_rollup_rows_per_second", ""] > 0
    assert samples["bus_rollup_state_rows", ""] == lines - traffic.repeated
    assert samples["bus_rollup_state_bytes", ""] > 0
    assert samples["bus_rollup_freshness_seconds_count", ""] == good
    assert samples["bus_rollup_freshness_seconds_bucket", "86400.0"] == 0  # this traffic is months old
    last = max(each.published for each in lake.manifests(ROLLUP_LINE))
    assert samples["bus_rollup_last_commit_timestamp_seconds", ""] == last / 1000
    printed = [json.loads(line) for line in stream.log.read_text("utf-8").splitlines() if line.startswith("{")]
    for line, (batch, ages) in zip(printed, aged_batches(tmp_path / "lake"), strict=True):
        assert line["batch"] == batch.number
        for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1)):
            assert share_of(ages, share - 0.01) <= line["freshness_s"][name] <= share_of(ages, min(share + 0.01, 1))
    taken = pipeline("rollup", "--events", tmp_path, "--lake", tmp_path / "other", "--metrics-port", port)
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}: in use" in taken.stderr
    assert "--metrics-port" in taken.stderr


@pytest.mark.proof
def test_freshness_under_load_is_that_of_the_events(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    p50, p95 = freshness.rows_of(Run(folder, QUICK, Path(), lambda _: None), rate=100, seconds=6)
    assert 0 < p50.value <= p95.value
    # The stream keeps 21 points of each batch; between two of them it takes events to be spread evenly.
    assert p50.ratio == pytest.approx(1, abs=0.1)
    assert p95.ratio == pytest.approx(1, abs=0.1)
    assert f"of {600 * freshness.STAGES:,} events" in p95.figure
