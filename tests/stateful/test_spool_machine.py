"""A spool against a model: appends, claims, acks, consumers that come and go, crashes, restarts and damage."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bus.ports.spool import NewRecord, Record
from bus.spool import BlockingSpool, Options

LANES = ["a", "b"]
CONSUMERS = ["send", "store", "audit"]


class Model:
    """What one consumer in one lane should see: positions to come, in its hands, and acked but maybe not durably."""

    def __init__(self) -> None:
        self.waiting: set[int] = set()
        self.held: set[int] = set()
        self.unsure: set[int] = set()
        self.seen: set[int] = set()
        self.before: set[int] = set()


class SpoolMachine(RuleBasedStateMachine):
    file_class: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="spool-machine-"))
        self.records: dict[int, Record] = {}
        self.models: dict[tuple[str, str], Model] = {}
        self.damaged = 0
        self.swept = False
        self.opened_at: dict[str, int] = {}
        self.highest: dict[str, int] = dict.fromkeys(LANES, 0)

    @initialize(cache=st.sampled_from([0, 2000, 1 << 20]))
    def start(self, cache: int) -> None:
        self.cache = cache
        self.open()

    def open(self) -> None:
        extra = {"file_class": self.file_class} if self.file_class else {}
        self.spool = BlockingSpool(self.directory, Options(cache_bytes=self.cache, **extra))
        self.opened_at = dict(self.highest)

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.drain()
            self.spool.close()
        shutil.rmtree(self.directory)

    @rule(lane=st.sampled_from(LANES), sizes=st.lists(st.sampled_from([0, 1, 300, 9000]), min_size=1, max_size=6))
    def append(self, lane: str, sizes: list[int]) -> None:
        new = [NewRecord(lane, bytes([len(self.records) % 251]) * size, len(self.records)) for size in sizes]
        self.took(lane, new, self.spool.append(new))

    def took(self, lane: str, new: list[NewRecord], positions: list[int]) -> None:
        self.models.setdefault((lane, "send"), Model())
        assert positions == sorted(set(positions))
        assert positions[0] > self.highest[lane], "a position was used again"
        self.highest[lane] = positions[-1]
        for position, record in zip(positions, new, strict=True):
            self.records[position] = Record(position, lane, record.payload, record.time)
        for (name, _), model in self.models.items():
            if name == lane:
                model.waiting.update(positions)
        self.committed()

    def committed(self) -> None:
        for model in self.models.values():
            model.unsure.clear()

    @rule(lane=st.sampled_from(LANES), consumer=st.sampled_from(CONSUMERS), limit=st.integers(1, 8))
    def claim(self, lane: str, consumer: str, limit: int) -> None:
        found = self.spool.claim(consumer, limit, lane)
        model = self.models.get((lane, consumer))
        if model is None:
            assert found == []
            return
        expected = sorted(model.waiting)[: len(found)]
        assert [record.position for record in found] == expected
        assert len(found) <= limit
        assert bool(found) == bool(model.waiting)
        for record in found:
            self.check_record(record, consumer, model)
        model.waiting.difference_update(expected)
        model.held.update(expected)
        model.seen.update(expected)

    def check_record(self, record: Record, consumer: str, model: Model) -> None:
        assert record == self.records[record.position]
        recovered = self.spool.recovered(consumer, record)
        if record.position > self.opened_at.get(record.lane, 0):
            assert not recovered
        elif record.position in model.before:
            assert recovered, "claimed before the restart, but not said to be"

    @rule(data=st.data(), consumer=st.sampled_from(CONSUMERS), lane=st.sampled_from(LANES))
    def ack(self, data: st.DataObject, consumer: str, lane: str) -> None:
        model = self.models.get((lane, consumer))
        chosen = self.choose(data, model)
        self.spool.ack(consumer, [self.records[position] for position in chosen])
        if model is not None:
            model.held.difference_update(chosen)
            model.unsure.update(chosen)

    @rule(data=st.data(), consumer=st.sampled_from(CONSUMERS), lane=st.sampled_from(LANES))
    def release(self, data: st.DataObject, consumer: str, lane: str) -> None:
        model = self.models.get((lane, consumer))
        chosen = self.choose(data, model)
        self.spool.release(consumer, [self.records[position] for position in chosen])
        if model is not None:
            model.held.difference_update(chosen)
            model.waiting.update(chosen)

    def choose(self, data: st.DataObject, model: Model | None) -> list[int]:
        if model is None or not model.held:
            return []
        return data.draw(st.lists(st.sampled_from(sorted(model.held)), unique=True))

    @rule(data=st.data(), source=st.sampled_from(LANES), into=st.sampled_from(LANES))
    def move(self, data: st.DataObject, source: str, into: str) -> None:
        model = self.models.get((source, "send"))
        chosen = self.choose(data, model)
        if model is None or not chosen:
            return
        moved = [self.records[position] for position in chosen]
        model.held.difference_update(chosen)
        new = [NewRecord(into, record.payload, record.time) for record in moved]
        self.took(into, new, self.spool.exchange("send", moved, new, urgent=True))

    @rule(lane=st.sampled_from(LANES), consumer=st.sampled_from(CONSUMERS[1:]))
    def attach(self, lane: str, consumer: str) -> None:
        self.spool.attach(lane, consumer)
        self.spool.settle()
        self.committed()
        self.models.setdefault((lane, "send"), Model())
        self.models.setdefault((lane, consumer), Model())

    @rule(lane=st.sampled_from(LANES), consumer=st.sampled_from(CONSUMERS[1:]))
    def detach(self, lane: str, consumer: str) -> None:
        self.spool.detach(lane, consumer)
        self.models.pop((lane, consumer), None)
        self.swept = True
        self.spool.settle()
        self.committed()

    @rule()
    def settle(self) -> None:
        self.spool.settle()
        self.committed()

    @rule()
    def close_and_open(self) -> None:
        self.spool.close()
        self.committed()
        self.give_back()
        self.open()

    @rule()
    def crash_and_open(self) -> None:
        self.spool._engine.crash()
        for model in self.models.values():
            still = {position for position in model.unsure if self.is_stored(position)}
            model.waiting |= still
            model.unsure.clear()
        self.give_back()
        self.open()

    def is_stored(self, position: int) -> bool:
        return bool(self.query(f"SELECT 1 FROM record WHERE position = {position}"))

    def give_back(self) -> None:
        for model in self.models.values():
            model.waiting |= model.held
            model.held.clear()
            model.before = model.seen & model.waiting

    @precondition(lambda self: self.cache == 0)
    @rule(data=st.data())
    def damage_one(self, data: st.DataObject) -> None:
        """Spoil a record that somebody still waits for, behind the spool's back."""
        self.spool.close()
        self.committed()
        self.give_back()
        waiting = sorted(set().union(*[model.waiting for model in self.models.values()]))
        if waiting:
            position = data.draw(st.sampled_from(waiting))
            self.query(f"UPDATE record SET checksum = checksum + 1 WHERE position = {position}")
            self.damaged += 1
            for model in self.models.values():
                model.waiting.discard(position)
        self.open()
        for lane, consumer in self.models:  # whoever comes first finds it
            self.claim(lane, consumer, 8)

    # What must always hold

    @invariant()
    def counts_are_right(self) -> None:
        if not hasattr(self, "spool"):
            return
        stats = self.spool.stats()
        assert self.spool.totals() == stats[:4]
        assert sorted(self.spool.waiting()) == sorted(found for found in stats.consumers if found.records)
        assert stats.damaged <= self.damaged
        rooms = [self.spool.room(lane) for lane in LANES]
        assert sum(room.held for room in rooms) == stats.bytes
        assert {(room.total, room.free) for room in rooms} == {(stats.bytes, stats.limit - stats.bytes)}
        if stats.damaged == self.damaged:
            rows = {(row.lane, row.consumer): row for row in stats.consumers}
            for key, model in self.models.items():
                assert rows[key].records == len(model.waiting) + len(model.held), key
                times = [self.records[position].time for position in model.waiting | model.held]
                assert (rows[key].oldest is None) == (not times)
                if times:
                    first = min(model.waiting | model.held)
                    assert rows[key].oldest <= self.records[first].time

    def query(self, sql: str) -> list[Any]:
        db = apsw.Connection(str(self.directory / "spool.db"))
        try:
            return list(db.execute(sql))
        finally:
            db.close()

    def drain(self) -> None:
        """Everything that was not acked can still be had, and then the file is empty."""
        self.give_back_in_spool()
        for (lane, consumer), model in self.models.items():
            while model.waiting:
                self.claim(lane, consumer, 8)
            self.spool.ack(consumer, [self.records[position] for position in model.held])
            model.held.clear()
            assert self.spool.claim(consumer, 1, lane) == []
        self.spool.settle()
        stats = self.spool.stats()
        assert (stats.records, stats.bytes) == (0, 0)
        assert stats.damaged <= self.damaged
        if not self.swept:  # damage that only a detached consumer would have met is never seen
            assert stats.damaged == self.damaged
        assert self.query("SELECT count(*) FROM record") == [(0,)]
        assert self.query("SELECT coalesce(sum(records), 0), coalesce(sum(bytes), 0) FROM tally WHERE lane > 0") == [
            (0, 0)
        ]

    def give_back_in_spool(self) -> None:
        for (_, consumer), model in self.models.items():
            self.spool.release(consumer, [self.records[position] for position in model.held])
            model.waiting |= model.held
            model.held.clear()


TestSpool = SpoolMachine.TestCase
TestSpool.settings = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.proof
class TestSpoolAtLength(SpoolMachine.TestCase):
    settings = settings(
        max_examples=2000, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
    )
