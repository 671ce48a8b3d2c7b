"""A person chooses the cluster that is published to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from bus.domain.catalog import Catalog
from bus.domain.destination import TransportName
from bus.testing.transport import MemoryTransport
from tests.unit.admin.admin_world import World, problem

PRIMARY, BACKUP = "rabbitmq-primary", "rabbitmq-backup"


class Paired(MemoryTransport):
    """A transport of one or two clusters, each well or not; who is preferred is used when well."""

    def __init__(self, *clusters: str) -> None:
        super().__init__(TransportName.RABBITMQ)
        self.clusters = clusters
        self.preferred: list[str | None] = []
        self.troubles = dict.fromkeys(clusters, "")

    @property
    def active(self) -> str:
        chosen = self.preferred[-1] if self.preferred else None
        return chosen if chosen is not None and not self.troubles[chosen] else self.clusters[0]

    def prefer(self, cluster: str | None) -> None:
        self.preferred.append(cluster)

    def conditions(self) -> dict[str, str]:
        return self.troubles


def world_of(*transports: MemoryTransport) -> World:
    """Return a world whose transports hear of what a person chooses, as those of a process do."""
    world = World(*transports)

    async def listener(_: Catalog) -> None:
        world.context.router.preference.prefer(world.registry.preference.cluster)

    world.registry.listen(listener)
    return world


@pytest.fixture
def transport() -> Paired:
    return Paired(PRIMARY, BACKUP)


@pytest.fixture
async def client(transport: Paired) -> AsyncIterator[httpx.AsyncClient]:
    async with world_of(transport).client() as found:
        yield found


async def test_clusters_are_listed(transport: Paired, client: httpx.AsyncClient) -> None:
    transport.troubles[BACKUP] = "away"
    same = {"transport": "rabbitmq", "preferred": False, "published_by": [], "detail_text": None}
    assert (await client.get("/clusters")).json() == {
        "preferred": None,
        "items": [
            {"name": PRIMARY, "ok": True, "detail": "", **same},
            {"name": BACKUP, "ok": False, "detail": "away", **same},
        ],
        "next": None,
    }


async def test_a_choice_is_in_force_at_once_and_until_it_is_taken_back(
    transport: Paired, client: httpx.AsyncClient
) -> None:
    for _ in range(2):
        found = (await client.put("/clusters", json={"preferred": BACKUP})).json()
        assert (found["preferred"], [item["preferred"] for item in found["items"]]) == (BACKUP, [False, True])
    assert transport.preferred == [BACKUP]
    assert (await client.get("/clusters")).json() == found
    assert (await client.put("/clusters", json={"preferred": None})).json()["preferred"] is None
    assert transport.preferred == [BACKUP, None]


async def test_health_says_where_publishing_goes_by_hand(transport: Paired, client: httpx.AsyncClient) -> None:
    async def details() -> dict[str, str]:
        return {check["name"]: check["detail"] for check in (await client.get("/health")).json()["checks"]}

    assert set((await details()).values()) == {""}
    await client.put("/clusters", json={"preferred": BACKUP})
    assert "chosen by hand" in (await details())[BACKUP]
    transport.troubles[BACKUP] = "away"
    assert (await details())[BACKUP] == "away"
    assert BACKUP in (await details())[PRIMARY]
    assert (await client.get("/health")).json()["status"] == "degraded"


@pytest.mark.parametrize(
    ("clusters", "chosen", "said", "hint"),
    [
        ((PRIMARY, BACKUP), "third", f"there are: {PRIMARY}, {BACKUP}", "bus cluster list"),
        ((PRIMARY,), PRIMARY, "only cluster", "rabbitmq_backup"),
        ((), BACKUP, "no transport here", "rabbitmq_primary"),
    ],
)
async def test_an_impossible_choice_says_why(clusters: tuple[str, ...], chosen: str, said: str, hint: str) -> None:
    transports = [Paired(*clusters)] if clusters else []
    world = world_of(*transports)
    async with world.client() as client:
        answer = await client.put("/clusters", json={"preferred": chosen})
        problem(answer, 422, "preferred")
        assert said in answer.json()["detail"]
        assert hint in answer.json()["hint"]
        problem(await client.put("/clusters", json={}), 422, "preferred")
        assert (await client.put("/clusters", json={"preferred": None})).status_code == 200
    assert world.registry.preference.cluster is None
