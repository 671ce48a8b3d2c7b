"""The audit ledger adds up however events are cut into blocks, and tells loss with duplication from neither."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bus.domain.identity import new_id
from bus.domain.tracing.audit_ledger import bucket_of, fingerprint, ledger_of, minute_of
from bus.domain.tracing.events import LedgerRow, Stage, TraceEvent

NOON = 1_732_233_600_000
IDS = [new_id(NOON + number * 7_001, bytes([number]) * 10) for number in range(40)]
NAMES = ("billing", "search", "stock")
STATUSES = ("delivered", "skipped", "canceled", "parked", "dead", "retrying")

Bucket = tuple[str, str, str, int]


def total(rows: Iterable[LedgerRow]) -> dict[Bucket, tuple[int, int, int, dict[int, int]]]:
    """Add rows up as a reader does, in signed arithmetic modulo 2^64."""
    found: dict[Bucket, tuple[int, int, int, dict[int, int]]] = {}
    for row in rows:
        key = (row.stage, row.destination, row.subscription, row.minute)
        count, xor, sum_, latency = found.get(key, (0, 0, 0, {}))
        merged = {place: latency.get(place, 0) + row.latency.get(place, 0) for place in {*latency, *row.latency}}
        wrapped = (sum_ + row.sum + 2**63) % 2**64 - 2**63
        found[key] = (count + row.count, xor ^ row.xor, wrapped, merged)
    return found


def told() -> st.SearchStrategy[TraceEvent]:
    places = st.sampled_from(["orders", "returns"])
    sent = st.builds(
        TraceEvent, stage=st.just(Stage.SENT), at=st.just(NOON), id=st.sampled_from(IDS), destination=places
    )
    accepted = st.builds(
        TraceEvent,
        stage=st.just(Stage.ACCEPTED),
        at=st.just(NOON),
        id=st.sampled_from(IDS),
        destination=places,
        expected=st.lists(st.sampled_from(NAMES), unique=True).map(tuple),
    )
    settled = st.builds(
        TraceEvent,
        stage=st.just(Stage.SETTLED),
        at=st.just(NOON),
        id=st.sampled_from(IDS),
        destination=places,
        subscription=st.sampled_from(NAMES),
        status=st.sampled_from(STATUSES),
        latency_us=st.integers(-1, 10**9),
    )
    published = st.builds(
        TraceEvent,
        stage=st.just(Stage.PUBLISHED),
        at=st.just(NOON),
        id=st.sampled_from(IDS),
        destination=places,
        status=st.sampled_from(["confirmed", "failed"]),
    )
    return st.one_of(sent, accepted, settled, published)


@given(events=st.lists(told(), max_size=60), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_the_ledger_adds_up_however_events_are_cut(events: list[TraceEvent], cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    parts = [events[start:end] for start, end in pairwise(edges)]
    rows = [row for part in parts for row in ledger_of(part)]
    assert total(rows) == total(ledger_of(events)) == counted(events)


@given(data=st.data(), events=st.lists(told(), max_size=40))
def test_equal_events_in_any_order_give_equal_ledgers(data: st.DataObject, events: list[TraceEvent]) -> None:
    assert ledger_of(data.draw(st.permutations(events))) == ledger_of(events)


def counted(events: Sequence[TraceEvent]) -> dict[Bucket, tuple[int, int, int, dict[int, int]]]:
    """Count naively, by the words of the format."""
    found: dict[Bucket, tuple[int, int, int, dict[int, int]]] = {}

    def add(stage: str, event: TraceEvent, subscription: str, latency: int = -1) -> None:
        key = (stage, event.destination, subscription, minute_of(event.id))
        count, xor, sum_, places = found.get(key, (0, 0, 0, {}))
        number = fingerprint(event.id)
        if latency >= 0:
            place = math.ceil(math.log(max(latency, 1)) / math.log(1.04))
            places = {**places, place: places.get(place, 0) + 1}
        found[key] = (count + 1, xor ^ number, (sum_ + number + 2**63) % 2**64 - 2**63, places)

    for event in events:
        if event.stage is Stage.SETTLED:
            if event.status != "retrying":
                add(event.status, event, event.subscription, event.latency_us)
        elif event.stage is not Stage.PUBLISHED or event.status == "confirmed":
            add(event.stage, event, "")
        for name in event.expected:
            add("expected", event, name)
    return found


def test_a_loss_and_a_duplicate_differ_in_the_checksums_alone() -> None:
    right = [TraceEvent(stage=Stage.SENT, at=NOON, id=new_id(NOON, bytes([n]) * 10), destination="a") for n in range(9)]
    wrong = [*right[1:], right[1]]
    (good,), (bad,) = ledger_of(right), ledger_of(wrong)
    assert good.count == bad.count
    assert good.xor != bad.xor
    assert good.sum != bad.sum


def test_hashes_are_those_of_spark() -> None:
    # Spark 4.0: SELECT xxhash64(s)
    known = {
        "": -7444071767201028348,
        "Spark": -4294468057691064905,
        "01890a5d-ac96-774b-bcce-b302099a8057": 3385239267100444125,
    }
    assert {text: fingerprint(text) for text in known} == known


def test_buckets_are_four_percent_wide() -> None:
    assert [bucket_of(us) for us in (0, 1, 2)] == [0, 0, 18]
    for us in (3, 999, 1_000, 123_456, 10**9):
        assert 1.04 ** (bucket_of(us) - 1) < us <= 1.04 ** bucket_of(us) * (1 + 1e-9)


def test_a_minute_is_that_of_the_id() -> None:
    assert minute_of(new_id(NOON + 61_234)) == NOON + 60_000
    assert minute_of(new_id(NOON + 59_999)) == NOON
