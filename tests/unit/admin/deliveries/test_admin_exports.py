"""A whole selection as a file."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import Any

import httpx
import pytest

from admin.routes import exports
from bus.domain.delivery.delivery import Status
from bus.testing.writes import message
from tests.unit.admin.admin_world import World, problem


async def export(client: httpx.AsyncClient, **query: Any) -> httpx.Response:
    answer = await client.get("/messages/export", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.content.endswith(b"\n")
    return [json.loads(line) for line in answer.content.decode().split("\n")[:-1]]


async def test_ndjson_has_every_message_of_all_pages_and_says_that_it_is_whole(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE", 3)
    sent = await world.written(8, Status.DEAD, Status.DELIVERED)
    answer = await export(client, status="dead")
    *rows, last = lines(answer)
    assert [row["id"] for row in rows] == [one.id for one in reversed(sent[::2])]
    assert last == {"complete": True, "count": 4}
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == 'attachment; filename="messages-20261121T120100Z.ndjson"'
    assert "content-length" not in answer.headers
    shown = (await client.get("/messages", params={"status": "dead", "limit": 1})).json()["items"][0]
    assert {name: rows[0][name] for name in shown} == shown
    assert rows[0]["deliveries"] == [{"subscription": "billing", "status": "dead", "attempts": 1, "reason": ""}]
    assert "body" not in rows[0]


async def test_nothing_is_a_whole_file_too(client: httpx.AsyncClient) -> None:
    assert lines(await export(client)) == [{"complete": True, "count": 0}]
    assert lines(await export(client, bodies=True)) == [{"complete": True, "count": 0}]
    assert len((await export(client, format="csv")).content.splitlines()) == 1


async def test_a_cell_is_never_a_formula(world: World, client: httpx.AsyncClient) -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "\nx", 'a"b,c', "ü", ""]
    await world.store.write([message(n, biz_id=text, key=text, source=text) for n, text in enumerate(texts)])
    answer = await export(client, format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"].endswith('Z.csv"')
    rows = list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))
    expected = [f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r", "\n"} else text for text in texts]
    for name in ("biz_id", "key", "source"):
        assert [row[name] for row in reversed(rows)] == expected
    assert rows[0]["next_attempt_at"] == ""
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row.values())


async def test_bodies_are_json_or_base64_and_on_record(world: World, client: httpx.AsyncClient) -> None:
    bodies = [b'{\r\n "n": 1.50,\n "t": "a\\nb"}', b"\xff\n", b"", b"text", b"NaN", b"[" * 100_000]
    await world.store.write([message(n, body=body) for n, body in enumerate(bodies)])
    answer = await export(client, bodies=True, q="order-")
    *rows, last = lines(answer)
    assert last == {"complete": True, "count": 6}
    assert b'"n": 1.50' in answer.content
    assert rows[-1]["body"] == {"n": 1.5, "t": "a\nb"}
    assert [base64.b64decode(row["body_base64"]) for row in reversed(rows[:-1])] == bodies[1:]
    entries = (await client.get("/audit", params={"what": "messages/export"})).json()["items"]
    assert [(entry["method"], entry["outcome"]) for entry in entries] == [("GET", "done")]


async def test_without_bodies_nothing_is_on_record(world: World, client: httpx.AsyncClient) -> None:
    await world.written(2)
    await export(client)
    assert (await client.get("/audit", params={"what": "messages"})).json()["items"] == []


async def test_bodies_need_ndjson(client: httpx.AsyncClient) -> None:
    problem(await client.get("/messages/export?format=csv&bodies=true"), 422, "bodies")
    problem(await client.get("/messages/export?format=xml"), 422, "format")


async def test_what_a_key_may_not_search_it_may_not_export(world: World) -> None:
    await world.written(1)
    key = await world.keyring.create_key(roles=("viewer",), destinations=("orders",))
    producer = await world.keyring.create_key(roles=("producer",))
    async with world.client(key) as client:
        problem(await client.get("/messages/export"), 403)
        problem(await client.get("/messages/export?destination=mails"), 403)
        assert len(lines(await export(client, destination="orders"))) == 2
    async with world.client(producer) as client:
        problem(await client.get("/messages/export"), 403)
    async with world.client() as client:
        problem(await client.get("/messages/export"), 401)


async def test_a_store_that_is_away_at_the_start_is_a_503(world: World, client: httpx.AsyncClient) -> None:
    world.store.down = True
    problem(await client.get("/messages/export"), 503)


async def test_a_store_that_goes_away_in_the_middle_leaves_no_file_that_looks_whole(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_PAGE", 2)
    await world.written(5)
    search = world.store.search

    async def once(*args: Any, **options: Any) -> Any:
        page = await search(*args, **options)
        world.store.down = True
        return page

    monkeypatch.setattr(world.store, "search", once)
    with pytest.raises(exports.CutOff):
        await client.get("/messages/export")
