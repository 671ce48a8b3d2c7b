"""Every shape that the chain of a strictly ordered destination can have."""

from __future__ import annotations

from typing import Final

from bus.domain.ordering.chain import Chain, Lease, Segment, abandoned, lost, with_current
from bus.domain.ordering.document import COLLECTION, encode_chain
from bus.testing.broker_group import MemoryGroup
from bus.testing.cluster import OWNER
from bus.testing.writes import message
from tests.unit.admin.admin_world import URL, World

HERE: Final = "http://127.0.0.1:1"
SENDER: Final = Lease(OWNER, HERE, 101)
READER: Final = Lease(OWNER, HERE, 102)
GONE: Final = Lease("owner-9", "http://10.0.0.9:8700", 90)


def chain(*consume: Segment, send: tuple[str, ...] = (), **changes: object) -> Chain:
    """Return a chain on which this process works."""
    fields = {"epoch": 110, "sender": SENDER, "reader": READER, **changes}
    return Chain(send=send, consume=consume, **fields)  # type: ignore[arg-type]


FLOWING: Final = chain(Segment("g1", 103), send=("g1", "g2"))
MOVED: Final = chain(Segment("g1", 103, ("mail",)), Segment("g2", 110), send=("g2",))
SHAPES: Final[dict[str, bytes | None]] = {
    "no document": None,
    "nobody works on it": encode_chain(Chain(epoch=100)),
    "no group takes messages": encode_chain(chain()),
    "flowing": encode_chain(FLOWING),
    "partly drained": encode_chain(MOVED),
    "several segments": encode_chain(
        chain(Segment("g2", 103, ("mail",)), Segment("g1", 105), Segment("g3", 108), send=("g3",))
    ),
    "no head": encode_chain(chain(Segment("g1", 103), Segment("g2", 105, ("billing",)))),
    "lost disks": encode_chain(
        lost(chain(Segment("g1", 103, ("mail",), 1_700_000_000_000), Segment("g2", 110), send=("g2",)), "g1")
    ),
    "lost disks and goes on": encode_chain(
        with_current(lost(chain(Segment("g1", 103), send=("g1",)), "g1"), 1_700_000_000_000)
    ),
    "a gap": encode_chain(abandoned(MOVED, "g1")),
    "unknown group": encode_chain(chain(Segment("old", 103), Segment("g1", 105), send=("g1",))),
    "workers are gone": encode_chain(chain(Segment("g1", 103), send=("g1",), sender=GONE, reader=GONE)),
    "a producer": encode_chain(
        chain(Segment("g1", 103), send=("g1",), producer=Lease("shop-1", "http://10.0.0.5", 107))
    ),
    "another version": b'{"epoch":"later"}',
    "not a chain": b"\xff",
}


async def strict_world(*names: str, **changes: object) -> World:
    """Return a world with a strictly ordered destination ``orders``, its subscriptions, and groups of brokers."""
    world = World(groups=[MemoryGroup(name) for name in names or ("g1", "g2", "g3")], **changes)  # type: ignore[arg-type]
    async with world.client() as client:
        made = await client.put("/destinations/orders", json={"transport": "kafka", "ordering": "strict"})
        assert made.status_code == 200, made.text
        for name in ("billing", "mail"):
            await client.put(f"/destinations/orders/subscriptions/{name}", json={"url": URL})
        await client.put("/destinations/plain", json={})
    return world


async def shape(world: World, document: bytes | None, code: str = "orders") -> None:
    """Have the coordinator keep this chain."""
    if document is None:
        await world.store.delete(COLLECTION, code)
    else:
        await world.store.put(COLLECTION, code, document)


async def fill(group: MemoryGroup, count: int, code: str = "orders") -> None:
    """Have messages wait on a group for every subscription."""
    writer = await group.writer(code)
    await writer.write([message(number, destination=code) for number in range(count)])
    await writer.close()
