"""An archive has a partition dropped: what it says of the contents must be what the store finds."""

from bus.domain.delivery.delivery import Status
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.times import DAY, format_time
from bus.domain.tracing.contents import Tally
from bus.testing.writes import NOON, message, outcome
from tests.unit.admin.admin_world import World, problem

PATH = "/partitions/20261121-30d/drop"


async def delivered(world: World, sent: Message) -> dict[str, object]:
    """Store a message that was delivered; return the contents of its partition."""
    await world.store.write([sent, *(outcome(sent, name, Status.DELIVERED) for name in sent.expected)])
    trace = await world.store.trace(sent.id)
    assert trace is not None
    tally = Tally()
    tally.add(trace, sent.body)
    return tally.contents._asdict()


async def test_a_partition_is_dropped_when_its_contents_are_as_the_archive_says() -> None:
    world, sent = World(), message(1)
    contents = await delivered(world, sent)
    async with world.client() as client:
        path = PATH
        other = problem(await client.post(path, json={**contents, "checksum": "0" * 30}), 409)
        assert contents["checksum"] in other["detail"]
        assert await world.store.trace(sent.id) is not None
        answer = await client.post(path, json=contents)
        assert (answer.status_code, answer.json()) == (200, {"dropped": "20261121-30d", "messages": 1})
        assert await world.store.trace(sent.id) is None
        problem(await client.post(path, json=contents), 404)
        problem(await client.post("/partitions/yesterday/drop", json=contents), 404)
        problem(await client.post(path, json={**contents, "checksum": "x"}), 422, "checksum")
        (entry,) = [item for item in (await client.get("/audit")).json()["items"] if item["status"] == 200]
        assert entry["resource"] == "partitions/20261121-30d/drop"
        assert entry["changes"]["checksum"]["before"] == contents["checksum"]


async def test_who_looks_for_an_archived_message_is_told_where_it_is() -> None:
    world, sent = World(), message(1)
    contents = await delivered(world, sent)
    async with world.client() as client:
        assert (await client.get("/messages")).json()["searched"]["archived"] == []
        assert (await client.post(PATH, json={**contents, "lake": "/mnt/lake"})).is_success
        for method, path in (("GET", ""), ("GET", "/body"), ("POST", "/resend")):
            told = problem(await client.request(method, f"/messages/{sent.id}{path}", json={}), 404)
            assert "the messages of its day were archived" in told["detail"]
            assert told["hint"] == f"read it there with: bus pipeline find {sent.id} --lake /mnt/lake"
        other_day = new_id(NOON + DAY)
        assert "there is no message" in problem(await client.get(f"/messages/{other_day}"), 404)["detail"]
        archived = [{"partition": "20261121-30d", "lake": "/mnt/lake"}]
        for query, found in ({}, archived), ({"ref": sent.id}, archived), ({"from": format_time(NOON + DAY)}, []):
            searched = (await client.get("/messages", params=query)).json()["searched"]
            assert searched["archived"] == found, query
