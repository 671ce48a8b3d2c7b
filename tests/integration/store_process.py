"""One process on a store that others share: ``python -m tests.integration.store_process ROLE DIRECTORY SEED``.

It waits for the file ``go`` beside the store, works until it is done or the file ``stop`` appears, and reports each
thing that returned as a line of JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bus.domain.delivery.delivery import Compensation, Origin, Outcome, Status
from bus.domain.identity import new_id
from bus.domain.message import Message
from bus.domain.times import DAY
from bus.errors import Conflict, StoreUnavailable
from bus.stores.sqlite import SqliteStore, connection, locking
from bus.testing.writes import DESTINATION, NOON, message, outcome, row
from tests.harness.waiting import wait_until

LANES = [(DESTINATION, name) for name in ("billing", "mail", "late")]
LATER = NOON + 99 * DAY
LONG = 60.0  # seconds for which a process of a test waits for the others, which none of them may come to
Stopped = Callable[[], bool]
Role = Callable[[SqliteStore, int, Stopped], Awaitable[None]]


def sent(number: int, **changes: Any) -> Message:
    """Make one of the messages that every process writes: of three days and two retention classes."""
    at = NOON + number % 3 * DAY + number
    identity = new_id(at, number.to_bytes(10, "big"))
    return message(number, **{"id": identity, "received_at": at, "retention_days": 30 + number % 2} | changes)


def every_write() -> list[Message | Outcome]:
    """Return writes that give the same in any order: what is said about one POST is always the same."""
    dice = random.Random(1)
    writes: list[Message | Outcome] = []
    for number in range(50):
        first = sent(number)
        writes += [first, sent(number, received_at=first.received_at + 5, expected=("billing", "audit"))]
        for name, generation, attempts in itertools.product(("billing", "mail"), (0, 1), (1, 2)):
            status = dice.choice([*Status, Status.RETRYING, Status.RETRYING])
            writes.append(outcome(first, name, status, attempts, generation=generation))
    return writes


def every_row() -> list[Compensation]:
    """Return rows of which the greatest stays."""
    fields = itertools.product(range(50), (0, 1), (0, 1, 2))
    return [row(sent(n), "late", generation=g, attempts=a, due_at=NOON + a, by=Origin.STUCK) for n, g, a in fields]


def report(**fields: object) -> None:
    """Say what returned."""
    print(json.dumps(fields), flush=True)


async def converge(store: SqliteStore, seed: int, _: Stopped) -> None:
    """Write everything, in an order and in portions of its own, some of it twice."""
    dice = random.Random(seed)
    works: list[Message | Outcome | Compensation] = [*every_write(), *every_row()]
    works += dice.sample(works, 100)
    dice.shuffle(works)

    async def work() -> None:
        while works:
            portion = [works.pop() for _ in range(min(len(works), dice.randrange(1, 30)))]
            await store.compensate([one for one in portion if isinstance(one, Compensation)])
            await store.write([one for one in portion if not isinstance(one, Compensation)])

    await asyncio.gather(*(work() for _ in range(4)))


async def lease(store: SqliteStore, seed: int, _: Stopped) -> None:
    """Lease until nothing is left, give some back, and count in one document together with the others."""
    dice = random.Random(seed)
    while taken := await store.lease(LATER, LATER + 1000, dict.fromkeys(LANES, 9), 20, owner=str(seed)):
        for one in taken:
            report(name=one.message_id + one.subscription, epoch=one.epoch)
        await store.unlease([one for one in taken if one.epoch == 1 and dice.random() < 0.1])
    for _ in range(20):
        while not await _counted(store):
            pass


async def _counted(store: SqliteStore) -> bool:
    document = await store.get("c", "counter")
    value, version = (int(document.value), document.version) if document else (0, 0)
    try:
        await store.put("c", "counter", b"%d" % (value + 1), version=version)
    except Conflict:
        return False
    return True


async def write(store: SqliteStore, seed: int, stopped: Stopped) -> None:
    """Write messages, outcomes and documents of its own until it is stopped."""

    async def work(first: int) -> None:
        for number in itertools.count(first):
            if stopped():
                return
            one = sent(number)
            await store.write([one])
            report(kind="message", number=number)
            await store.write([outcome(one, "billing", Status.RETRYING if number % 3 else Status.DELIVERED)])
            report(kind="outcome", number=number)
            await store.put("c", str(number), b"v")
            report(kind="document", number=number)

    await asyncio.gather(*(work((seed * 10 + n) * 100_000) for n in range(6)))


async def remember(store: SqliteStore, seed: int, stopped: Stopped) -> None:
    """Write into a partition past its retention: what is unfinished must stay, until it is finished here."""
    for number in itertools.count(seed * 100_000):
        if stopped():
            return
        one = message(number, retention_days=1, expected=("billing",))
        await store.write([one])
        if await store.message(one.id) != one:
            raise AssertionError(f"{one.id} is lost")
        await store.write([outcome(one, "billing", Status.DELIVERED)])
        report(number=number)
        await asyncio.sleep(0.002)


async def pend(store: SqliteStore, seed: int, stopped: Stopped) -> None:
    """Write messages to a subscription that was removed, into a partition past its retention."""
    for number in itertools.count(seed * 100_000):
        if stopped():
            return
        one = message(number, retention_days=1, expected=("mail",))
        await store.write([one, outcome(one, "mail", Status.RETRYING)][: 1 + number % 2])
        report(number=number)


async def cancel(store: SqliteStore, _: int, stopped: Stopped) -> None:
    """Cancel what is written to a removed subscription."""
    while not stopped():
        report(canceled=await store.cancel(DESTINATION, "mail", LATER))


async def expire(store: SqliteStore, _: int, stopped: Stopped) -> None:
    """Drop what can be dropped."""
    while not stopped():
        dropped, _kept = await store.expire(LATER + 9 * DAY)
        report(dropped=len(dropped))


async def stop_inside(store: SqliteStore, seed: int, _: Stopped) -> None:
    """Stop itself in the middle of a transaction, before the commit; report what became of it when it goes on."""
    writer: Any = store._writer
    writer._executor = _Stopping(writer._executor)
    await store.write([sent(seed)])
    report(written=seed)


async def stop_waiting(store: SqliteStore, seed: int, _: Stopped) -> None:
    """Stop itself while it waits for its turn, until it is killed."""
    turn: Any = store._turn
    turn._lock = _StoppingInVain(turn._lock)
    await store.write([sent(seed)])


class _Stopping:
    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def submit(self, *call: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        return self._executor.submit(*call)


class _StoppingInVain:
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def take(self) -> bool:
        if self._lock.take():
            return True
        os.kill(os.getpid(), signal.SIGSTOP)
        return False


async def fresh(seed: int, folder: Path) -> None:
    """Open directories that are not there, each at the same moment as the others, and write to them."""
    for number in range(8):
        wait_until((folder / f"go{number}").exists, within=2 * LONG, what=f"go{number}", every=0.0005)
        store = await SqliteStore.open(folder / f"fresh{number}")
        await store.write([sent(seed), outcome(sent(seed), "billing", Status.RETRYING)])
        await store.put("c", str(seed), b"")
        await store.close()
        report(opened=number)


ROLES: dict[str, Role] = {
    role.__name__: role for role in (converge, lease, write, remember, pend, cancel, expire, stop_inside, stop_waiting)
}


async def main(role: str, directory: Path, seed: int) -> None:
    for module in (connection, locking):
        vars(module)["PATIENCE"] = LONG
    report(ready=True)
    wait_until(directory.with_name("go").exists, within=2 * LONG, what="go", every=0.001)
    if role == "fresh":
        await fresh(seed, directory.parent)
        return
    store = await SqliteStore.open(directory)
    try:
        await ROLES[role](store, seed, directory.with_name("stop").exists)
    except StoreUnavailable as error:
        report(unavailable=str(error))
        raise
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
