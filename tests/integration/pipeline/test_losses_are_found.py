import dataclasses
import random
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row, SparkSession

from bus.domain.tracing.events import TraceEvent
from bus.events.gathering import EventBuffer
from pipeline.jobs import rollup
from pipeline.jobs.reconcile import Plan, Proof, missing, read_proofs, reconciled, totals
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.session import small_run
from pipeline.sources.lines import from_files
from pipeline.transforms.hearing import Patience
from pipeline.transforms.stored import Store
from tests.harness.accounts import delivered_messages, ends_of, moment, one_message, without, witness
from tests.harness.spark import CORES, large_run
from tests.harness.trace_lines import Event, told

NOW = int(time.time() * 1000)
START = NOW - 8 * 3_600_000
PATIENCE = Patience(allowance=600, horizon=3600)
Planning = Callable[[SparkSession], AbstractContextManager[None]]
Found = tuple[set[tuple[str, str]], dict[tuple[str, str], int], Proof]


@dataclasses.dataclass
class Bus:
    """A folder of trace events, the lake that the real rollup job makes of it, and how proofs of it are planned."""

    spark: SparkSession
    folder: Path
    planned: Planning = small_run
    seq: int = 0

    @property
    def lake(self) -> Lake:
        return Lake(Storage(str(self.folder / "lake")))

    def tell(self, events: list[Event], *, emitter: str = "e1", at: int = NOW, size: int = 1000) -> None:
        """Write events as a file of blocks, and roll it up."""
        lines = []
        for start in range(0, max(len(events), 1), size):
            self.seq += 1
            lines.append(told(events[start : start + size], emitter=emitter, seq=self.seq, at=at))
        self.roll_up("".join(lines))

    def roll_up(self, text: str) -> None:
        """Write a file of blocks, and have the job read it."""
        (self.folder / "events").mkdir(exist_ok=True)
        (self.folder / "events" / f"{self.seq}.jsonl").write_text(text)
        read = from_files(self.spark, str(self.folder / "events"))
        rollup.start(
            self.spark, self.lake, read, rollup.Plan(str(self.folder / "checkpoints"), 0, partitions=CORES)
        ).wait()

    def prove(self, *, now: int = NOW, store: Store | None = None) -> Found:
        """Return what is missing, how many buckets there are of each state and verdict, and the proof.

        It is the same whether or not what is plainly done is left out before.
        """
        (lost, counts, proof), screened = (
            self.prove_once(now, store),
            self.prove_once(now, store, screens=True, again=True),
        )
        assert screened[:2] == (lost, counts)
        return lost, counts, proof

    def prove_once(
        self, now: int = NOW, store: Store | None = None, *, screens: bool = False, again: bool = False
    ) -> Found:
        """Prove, in one of both ways; what was proven already is no news ``again``."""
        plan = Plan(moment(now), patience=PATIENCE, screens=screens)
        with self.planned(self.spark), reconciled(self.spark, self.lake, plan, store) as proof:
            lost = {(row.id, row.subscription) for row in missing(proof).collect()}
            counts: dict[tuple[str, str], int] = {}
            for row in totals(proof):
                counts[row.state, row.verdict] = counts.get((row.state, row.verdict), 0) + row.buckets
            assert not again or proof.buckets.where("news").isEmpty()
        return lost, counts, proof


def gaps_of(proof: Proof) -> list[Row]:
    return [gap for each in proof.emitters for gap in each.gaps]


@pytest.fixture
def bus(request, spark, tmp_path):
    return Bus(spark, tmp_path, getattr(request, "param", small_run))


in_either_session = pytest.mark.parametrize("bus", [small_run, large_run], indirect=True)
"""Both ways in which commands set a session up, by how much they read."""


@pytest.fixture(scope="module")
def planted(spark, tmp_path_factory) -> tuple[Path, list[tuple[str, str]]]:
    """A lake whose events miss three ends, and which."""
    events = delivered_messages(START, 40, 60_000, "shop", "mail")
    gone = random.Random(5).sample(ends_of(events), 3)
    bus = Bus(spark, tmp_path_factory.mktemp("planted"))
    bus.tell(without(events, gone))
    return bus.folder / "lake", gone


@pytest.mark.parametrize("screens", [False, True])
def test_exactly_what_was_removed_is_found(bus, planted, screens):
    lake, gone = planted
    shutil.copytree(lake, bus.folder / "lake")
    lost, counts, proof = bus.prove_once(screens=screens)
    assert lost == set(gone)
    assert sum(counts.values()) == proof.news
    assert counts["final", "proven"] > 100
    assert len(bus.lake.manifests("reconcile-v1")) == 1


@pytest.mark.proof
@in_either_session
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("messages", "step", "removed"), [(3_000, 5_000, 7), (100_000, 250, 200)])
def test_exactly_what_was_removed_is_found_and_a_run_without_news_writes_nothing(bus, messages, step, removed):
    events = delivered_messages(START, messages, step, "shop", "mail")
    gone = random.Random(5).sample(ends_of(events), removed)
    bus.tell(without(events, gone))
    lost, counts, proof = bus.prove()
    assert lost == set(gone)
    assert sum(counts.values()) == proof.news
    assert counts["final", "proven"] > 400
    again, _, repeated = bus.prove(now=NOW + 1)
    assert (again, repeated.news) == (lost, 0)
    assert len(bus.lake.manifests("reconcile-v1")) == 1


@pytest.mark.proof
@in_either_session
@pytest.mark.timeout(600)
def test_what_comes_late_is_awaited_and_amends_what_was_final(bus):
    events = delivered_messages(START, 30, 5_000)
    (late,) = random.Random(2).sample(ends_of(events), 1)
    bus.tell(without(events, [late]), at=START + 200_000)
    lost, counts, proof = bus.prove()
    assert (lost, {state for state, _ in counts}) == (set(), {"open"})
    assert proof.watermark == moment(START + 200_000)

    bus.seq += 2
    bus.tell([])
    lost, counts, proof = bus.prove(now=NOW + 1)
    assert (lost, {state for state, _ in counts}) == ({late}, {"final"})

    bus.tell([event for event in events if event["stage"] == "settled" and event["id"] == late[0]], emitter="e2")
    lost, counts, proof = bus.prove(now=NOW + 2)
    assert (lost, proof.news, counts["amended", "proven"]) == (set(), 1, 1)
    buckets, findings = read_proofs(bus.spark, bus.lake)
    assert {row.verdict for row in buckets.collect()} == {"proven"}
    assert findings.isEmpty()
    with reconciled(bus.spark, bus.lake, Plan(moment(NOW + 3), patience=PATIENCE)) as proof:
        told = {(gap.emitter, gap.blocks): (gap.after, gap.until) for gap in gaps_of(proof)}
    assert set(told) == {("e1", 2), ("e2", 4)}
    after, until = told["e1", 2]
    assert (until - after).total_seconds() * 1000 == NOW - START - 200_000
    afterwards = moment(NOW + 2 * 86_400_000)
    with reconciled(bus.spark, bus.lake, Plan(afterwards, since=afterwards, patience=PATIENCE)) as proof:
        assert not gaps_of(proof), "what is long past is nobody's concern who asks for the last hours"


@pytest.mark.proof
@in_either_session
@pytest.mark.timeout(600)
def test_what_memory_had_no_room_to_tell_is_explained_by_the_store_and_hides_no_loss(bus):
    told_of, undelivered, unheard, *others = [one_message(START + place * 1_000) for place in range(60)]
    said = [*told_of, *undelivered[:2], *(event for message in others[:20] for event in message)]
    unsaid = [*unheard[:2], *(event for message in others[20:] for event in message)]
    gathered = EventBuffer("receiver+dispatcher", "host-1", START, most=len(said) - 10)
    for event in [*said, *unsaid]:
        gathered.add(msgspec.convert(event, TraceEvent))
    sealed = gathered.close(NOW)
    bus.roll_up(f"{sealed.line.decode()}\n")

    ends = {message[0]["id"]: "delivered" for message in (told_of, *others)}
    ends |= {message[0]["id"]: "pending" for message in (undelivered, unheard)}
    rows = [{"id": each, "status": status, "owned": False} for each, status in ends.items()]
    lost, counts, proof = bus.prove(store=witness(bus.spark, rows, retention={"orders": 30}))
    assert lost == {(message[0]["id"], "shop") for message in (undelivered, unheard)}
    assert set(counts) <= {("final", "missing"), ("final", "explained"), ("final", "proven")}
    ((blocks, dropped),) = [(gap.blocks, gap.lost) for gap in gaps_of(proof)]
    assert (blocks, dropped) == (0, len(unsaid) + 10)

    rows = [{**row, "status": "delivered"} for row in rows]
    lost, counts, _ = bus.prove(now=NOW + 1, store=witness(bus.spark, rows, retention={"orders": 30}))
    assert lost == set()
    assert {verdict for _, verdict in counts} - {"proven"} == {"explained"}
