"""Searches in a full store find what is there, along indexes; and a million messages are searched in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from bench.million import MILLION, fill, fill_directory
from bench.population import DESTINATIONS, Population, Sent
from bench.search import GOAL, KNOWN, ask
from bus.domain.delivery.delivery import Status
from bus.domain.searching.conditions import StatusClass, trace_id_of
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.ports.store import Store
from bus.stores.sqlite import SqliteStore, search
from bus.stores.sqlite.partitions.planning import plan_for
from bus.testing.store import MemoryStore
from bus.testing.writes import NOON

COUNT = 15_000
POPULATION = Population(COUNT, NOON)
HOUR = 3_600_000
SOME = Selection(destination=DESTINATIONS[3], since=NOON - DAY)
# Those that an index answers, so that a page decodes little more than it returns.
INDEXED = [
    Selection(),
    Selection(destination=DESTINATIONS[0]),
    Selection(source="crm"),
    Selection(status=Status.DEAD),
    Selection(status=Status.RETRYING),
    Selection(destination=DESTINATIONS[0], subscription="mail", status=Status.DEAD),
    Selection(destination=DESTINATIONS[0], subscription="mail", signature="HTTP 503"),
    Selection(since=NOON - 2 * DAY, before=NOON - DAY),
]
OTHERS = [
    Selection(destination=DESTINATIONS[1], subscription="billing", status_class=StatusClass.FAILURE),
    Selection(destination=DESTINATIONS[1], subscription="billing", error="read TIMED out"),
    Selection(status_class=StatusClass.NONE),
    Selection(status_class=StatusClass.REFUSAL, status=Status.DEAD),
    Selection(error="connection refused", source="shop"),
    Selection(header="X-Tenant: t7"),
    Selection(header="x-nothing"),
    Selection(body_path="order.lines[5].sku", body_value="SKU-0042"),
    Selection(body_path="order.tags[1]", body_value="gift", since=NOON - HOUR),
    Selection(body_text='"id":7777,'),
    Selection(body_text="nowhere"),
    Selection(text="order-1999"),
    Selection(status=Status.DELIVERED, destination=DESTINATIONS[-1], source="crm"),
]


def shown(selection: Selection) -> str:
    """Return a selection's conditions as a test's name."""
    given = {name: getattr(selection, name) for name in selection.__struct_fields__}
    return ",".join(f"{name}={value}" for name, value in given.items() if value is not None) or "everything"


def names(sent: Sent) -> list[str]:
    """Return everything that a message is called."""
    message = sent.message
    return [name for name in (message.id, message.biz_id, message.key, trace_id_of(message.traceparent)) if name]


@pytest.fixture(scope="module")
def model() -> MemoryStore:
    store = MemoryStore()
    asyncio.run(fill(store, POPULATION, lambda _: None))
    return store


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("full")
    asyncio.run(fill_directory(data, POPULATION, lambda _: None))
    return data / "store"


@pytest.fixture
async def full(directory: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(directory)
    yield store
    await store.close()


async def first(store: Store, selection: Selection, most: int = 200) -> list[str]:
    """Return the ids of the first pages, until there are enough."""
    ids: list[str] = []
    cursor: str | None = None
    while len(ids) < most:
        page = await store.search(selection, cursor=cursor, limit=most - len(ids))
        ids += [trace.id for trace in page.traces]
        cursor = page.next
        if cursor is None:
            break
    return ids


@pytest.mark.parametrize("selection", [*INDEXED, *OTHERS], ids=shown)
async def test_a_full_store_finds_what_a_model_finds(
    full: SqliteStore, model: MemoryStore, selection: Selection
) -> None:
    expected = [trace.id for trace in (await model.search(selection, limit=200)).traces]
    assert await first(full, selection) == expected
    assert expected or "nothing" in str(selection) or "nowhere" in str(selection)


async def test_any_id_is_found_and_little_is_read(full: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = _counted(monkeypatch)
    asked = 0
    for number, sent in enumerate(POPULATION):
        if number % 797:
            continue
        for name in names(sent):
            asked += 1
            found = await first(full, Selection(ref=name), most=1000)
            assert sent.message.id in found
            assert name.startswith("customer-") or found == [sent.message.id]
            assert len(decoded) == len(found)
            decoded.clear()
    assert asked > 50


@pytest.mark.parametrize("selection", INDEXED, ids=shown)
async def test_a_page_reads_little_more_than_it_gives(
    full: SqliteStore, monkeypatch: pytest.MonkeyPatch, selection: Selection
) -> None:
    decoded = _counted(monkeypatch)
    page = await full.search(selection, limit=10)
    assert len(page.traces) == 10
    assert len(decoded) <= 2 * 11


@pytest.mark.parametrize(
    "selection",
    [*INDEXED, *OTHERS, Selection(ref="order-7"), Selection(ref="0af7651916cd43dd8448eb211c80319c")],
    ids=shown,
)
def test_no_plan_scans_or_sorts(directory: Path, selection: Selection) -> None:
    for file in sorted(directory.glob("traces-*.db")):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        plan = plan_for(connection, selection)
        for query in (plan.floor, plan.rows) if plan is not None else ():
            values = plan.values | {"below": b"\xff" * 16, "since": b"", "step": 100}
            steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            assert steps
            assert not [step for step in steps if "SCAN" in step or "TEMP B-TREE" in step], steps
        connection.close()


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    decoded: list[bytes] = []
    decode = search.decode_trace

    def counting(payload: bytes):
        decoded.append(payload)
        return decode(payload)

    monkeypatch.setattr(search, "decode_trace", counting)
    return decoded


@pytest.mark.parametrize("count", [2_000, pytest.param(MILLION, marks=[pytest.mark.proof, pytest.mark.timeout(3600)])])
def test_how_long_people_wait(tmp_path: Path, count: int) -> None:
    population = Population(count, time.time_ns() // 1_000_000)
    asyncio.run(fill_directory(tmp_path / "data", population, lambda _: None))
    waits = ask(tmp_path / "data", population, lambda _: None, most=KNOWN if count == MILLION else 3)
    print(f"\np95 of searches over {count:,} messages, milliseconds (goal {GOAL:g}):")
    for waited in waits:
        print(f"  {waited.kind:45} {waited.p95:7.1f}  {waited.note}")
        by_id = waited.kind.startswith(("any id", "a trace")) and "nothing" not in waited.kind
        assert waited.found >= len(waited.spent) * by_id
        assert not waited.partial or "bodies" in waited.kind or "header" in waited.kind or "error" in waited.kind
