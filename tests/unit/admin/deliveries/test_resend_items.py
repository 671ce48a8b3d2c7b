"""A job's items in pages, by outcome, and as a download."""

from __future__ import annotations

import csv
import io
import json

import httpx
import pytest

from admin.repair.jobs import Item, Job
from bus.domain.identity import new_id
from bus.domain.searching.selection import Selection
from tests.unit.admin.admin_world import World, problem

OUTCOMES = ("delivered", "failed", "missing")
REASONS = ("", "=HYPERLINK(1)", "+1", "-1", "@x", "\tx", 'a "b", c\nd', "ü")


@pytest.fixture
async def job_id(world: World) -> str:
    now = world.clock.now()
    job = Job(new_id(now), Selection(destination="orders"), None, "", "ann", now, "done", chunks=5)
    await world.services.jobs.save(job)
    number = 0
    for chunk in range(job.chunks):
        chunked = []
        for _ in range(100):
            name, reason = OUTCOMES[number % 3], REASONS[number % 8]
            chunked.append(Item(new_id(now + number, bytes(10)), "billing", 1, name, reason))
            number += 1
        await world.services.jobs.save_items(job.id, chunk, chunked)
    return job.id


async def pages(client: httpx.AsyncClient, job_id: str, **query: str | int) -> list[list[dict]]:
    found, cursor = [], "0"
    while cursor is not None:
        answer = await client.get(f"/resends/{job_id}/items", params={**query, "cursor": cursor})
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["items"])
        cursor = answer.json()["next"]
    return found


async def test_pages_have_every_item_once_in_order(client: httpx.AsyncClient, job_id: str) -> None:
    for limit in (1_000, 100, 33):
        found = await pages(client, job_id, limit=limit)
        ids = [item["message_id"] for page in found for item in page]
        assert ids == sorted(set(ids))
        assert len(ids) == 500
        assert {len(page) for page in found[:-1]} <= {limit}


async def test_pages_of_one_outcome(client: httpx.AsyncClient, job_id: str) -> None:
    found = await pages(client, job_id, outcome="failed", limit=50)
    assert [len(page) for page in found] == [50, 50, 50, 17]
    assert {item["outcome"] for page in found for item in page} == {"failed"}
    assert await pages(client, job_id, outcome="canceled") == [[]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("cursor=x", "cursor"),
        ("cursor=1.", "cursor"),
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("outcome=x", "outcome"),
    ],
)
async def test_an_impossible_page_is_a_422(client: httpx.AsyncClient, job_id: str, query: str, field: str) -> None:
    problem(await client.get(f"/resends/{job_id}/items?{query}"), 422, field)


async def test_a_page_beyond_the_end_is_empty(client: httpx.AsyncClient, job_id: str) -> None:
    answer = await client.get(f"/resends/{job_id}/items", params={"cursor": "99999999.99999999"})
    assert answer.json() == {"items": [], "next": None}


async def test_a_table_runs_nothing_in_a_spreadsheet(client: httpx.AsyncClient, job_id: str) -> None:
    answer = await client.get(f"/resends/{job_id}/items/export", params={"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="resend-{job_id}.csv"'
    header, *rows = csv.reader(io.StringIO(answer.text, newline=""))
    assert header == ["message_id", "subscription", "generation", "outcome", "reason"]
    assert len(rows) == 500
    assert [row[4] for row in rows[:8]] == ["", *(f"'{text}" for text in REASONS[1:6]), *REASONS[6:]]


async def test_lines_of_one_outcome(client: httpx.AsyncClient, job_id: str) -> None:
    answer = await client.get(f"/resends/{job_id}/items/export", params={"format": "ndjson", "outcome": "missing"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert len(lines) == 166
    assert {line["outcome"] for line in lines} == {"missing"}
    problem(await client.get(f"/resends/{job_id}/items/export", params={"format": "xml"}), 422, "format")
