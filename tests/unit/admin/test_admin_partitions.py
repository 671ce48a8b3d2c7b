"""An archive has a partition dropped: what it says of the contents must be what the store finds."""

from bus.domain.contents import Tally
from bus.domain.delivery import Status
from bus.testing.writes import message, outcome
from tests.unit.admin.admin_world import World, problem


async def test_a_partition_is_dropped_when_its_contents_are_as_the_archive_says() -> None:
    world = World()
    sent = message(1)
    await world.store.write([sent, *(outcome(sent, name, Status.DELIVERED) for name in sent.expected)])
    trace = await world.store.trace(sent.id)
    assert trace is not None
    tally = Tally()
    tally.add(trace, sent.body)
    contents = tally.contents._asdict()
    async with world.client() as client:
        path = "/partitions/20261121-30d/drop"
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
