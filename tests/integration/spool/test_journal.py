"""The spools of a process in one file, and how what earlier versions and other sets of roles left goes on there."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import pytest

from bus.bootstrap.spools import open_left, open_spools
from bus.domain.delivery.delivery import Status, decode_outcome
from bus.domain.message import decode_message
from bus.errors import SpoolFull
from bus.ports.spool import NewRecord, Spool
from bus.spool import Journal, Options, SectionOptions
from bus.spool.file import SpoolFile

LIMIT = 1 << 20
# As a bus of the version before journals left it when it was killed: 5 messages each of a paused destination and of
# one with three subscriptions: one took them, one is paused, one failed; the store had none of it yet.
APART = Path(__file__).parent / "data" / "spools_apart.tar.xz"
BOTH = ("receiver", "dispatcher")


async def opened(data: Path, *roles: str, stack: AsyncExitStack) -> dict[str, Spool]:
    return await open_spools(data, roles, LIMIT, 0, stack)


def directories(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir())


def waiting(spools: dict[str, Spool]) -> dict[tuple[str, str, str], int]:
    """Return how many records each consumer of each lane has before it, where it has any."""
    return {
        (name, found.lane, found.consumer): found.records
        for name, spool in spools.items()
        for found in spool.stats().consumers
        if found.records
    }


LEFT = {
    ("receiver", "orders", "store"): 5,
    ("receiver", "held", "publish"): 5,
    ("receiver", "held", "store"): 5,
    ("direct", "orders", "audit"): 5,
    ("outcomes", "orders", "store"): 5,
    ("outcomes", "orders/mail", "store"): 10,
    ("outcomes", "orders/mail", "retry"): 5,
}


async def test_the_spools_of_the_version_before_are_taken_over(tmp_path: Path) -> None:
    with tarfile.open(APART) as files:
        # Python 3.11.2 has no filter.
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(tmp_path)
    async with AsyncExitStack() as stack:
        spools = await opened(tmp_path, *BOTH, stack=stack)
        assert waiting(spools) == LEFT
        assert directories(tmp_path) == ["journal", "quarantine"]
        messages = [decode_message(found.payload) for found in await spools["direct"].claim("audit", 9, "orders")]
        assert [message.body for message in messages] == [b'{"n":%d}' % number for number in range(5)]
        outcomes = [
            decode_outcome(found.payload) for found in await spools["outcomes"].claim("retry", 9, "orders/mail")
        ]
        assert {outcome.message_id for outcome in outcomes} == {message.id for message in messages}
        assert {(outcome.status, outcome.attempts) for outcome in outcomes} == {(Status.RETRYING, 2)}
    async with AsyncExitStack() as stack:
        assert waiting(await opened(tmp_path, *BOTH, stack=stack)) == LEFT


@pytest.mark.parametrize(
    "lives", [(BOTH, ("receiver",), ("dispatcher",)), (("dispatcher",), ("receiver",), BOTH)], ids=["apart", "together"]
)
async def test_other_roles_on_the_same_directory_go_on(tmp_path: Path, lives: Sequence[Sequence[str]]) -> None:
    wanted = {}
    for number, roles in enumerate(lives):
        async with AsyncExitStack() as stack:
            spools = await opened(tmp_path, *roles, stack=stack)
            assert {key: found for key, found in wanted.items() if key[0] in spools} == waiting(spools)
            for name in ("receiver", "outcomes"):
                if name in spools:
                    await spools[name].append([NewRecord(f"d{number}", b"x", 1)])
            wanted |= waiting(spools)
    journals = ["journal"] if lives[-1] == BOTH else ["journal-dispatcher", "journal-receiver"]
    assert directories(tmp_path) == [*journals, "quarantine"]


async def test_a_live_process_keeps_what_is_its_own(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        receiver = await opened(tmp_path, "receiver", stack=stack)
        await receiver["receiver"].append([NewRecord("orders", b"x", 1)])
        dispatcher = await opened(tmp_path, "dispatcher", stack=stack)
        assert waiting(dispatcher) == {}
        assert waiting(receiver) == {("receiver", "orders", "publish"): 1, ("receiver", "orders", "store"): 1}


async def test_what_is_damaged_stays_where_it_is(tmp_path: Path) -> None:
    async with open_left(tmp_path / "receiver") as left:
        await left["receiver"].append([NewRecord("orders", bytes([number]) * 300, 1) for number in range(3)])
    file = tmp_path / "receiver" / "spool.db"
    content = file.read_bytes()
    file.write_bytes(content.replace(bytes([1]) * 300, bytes([1]) * 299 + b"!"))
    async with AsyncExitStack() as stack:
        spools = await opened(tmp_path, *BOTH, stack=stack)
        assert waiting(spools) == {("receiver", "orders", "publish"): 2, ("receiver", "orders", "store"): 2}
    assert file.exists()


async def test_sections_share_a_commit_and_have_limits_of_their_own(tmp_path: Path) -> None:
    commits = 0

    class Counted(SpoolFile):
        def commit(self) -> None:
            nonlocal commits
            commits += 1
            super().commit()

    sections = {"small": SectionOptions(("send",), 1000), "large": SectionOptions(("send",), LIMIT)}
    journal = await Journal.open(tmp_path, Options(sections=sections, file_class=Counted))
    small, large = journal.sections["small"], journal.sections["large"]
    await asyncio.gather(*(spool.append([NewRecord("a", b"x", 1)]) for spool in (small, large)))
    assert commits == 1
    with pytest.raises(SpoolFull):
        await small.append([NewRecord("a", bytes(1000), 1)])
    await large.append([NewRecord("a", bytes(1000), 1)])
    assert (small.stats().records, large.stats().records) == (1, 2)
    assert small.room("a").held < large.room("a").held
    await journal.close()


@pytest.mark.parametrize("error", [apsw.FullError, apsw.BusyError, apsw.CorruptError])
async def test_a_commit_that_fails_leaves_every_section_with_its_own_counts(
    tmp_path: Path, error: type[apsw.Error]
) -> None:
    failing = False

    class Failing(SpoolFile):
        def commit(self) -> None:
            nonlocal failing
            if failing:
                failing = False
                raise error
            super().commit()

    sections = {"one": SectionOptions(("send",), LIMIT), "two": SectionOptions(("send", "store"), LIMIT)}
    journal = await Journal.open(tmp_path, Options(sections=sections, file_class=Failing))
    one, two = journal.sections["one"], journal.sections["two"]
    await asyncio.gather(one.append([NewRecord("a", bytes(100), 1)]), two.append([NewRecord("a/x", bytes(200), 1)]))
    one.ack("send", await one.claim("send", 1, "a"))
    failing = True
    calls = one.append([NewRecord("a", bytes(300), 2)]), two.append([NewRecord("a/y", bytes(400), 2)])
    stored = [not isinstance(done, SpoolFull) for done in await asyncio.gather(*calls, return_exceptions=True)]
    await two.settle()
    assert stored == [error is not apsw.FullError] * 2
    kept = int(stored[0])
    assert (one.stats().records, two.stats().records) == (kept, 1 + kept)
    assert one.room("a").held == one.room("a").total == one.stats().bytes == kept * 332
    assert two.room("a/z").held == two.room("a/z").total == two.stats().bytes == 232 + kept * 432
    assert two.pending("store", "a/y") == kept
    await one.append([NewRecord("a", bytes(10), 3)])
    await journal.close()
    async with AsyncExitStack() as stack:
        again = await Journal.open(tmp_path, Options(sections=sections))
        stack.push_async_callback(again.close)
        assert again.sections["one"].stats().bytes == kept * 332 + 42
        assert again.sections["two"].stats().bytes == 232 + kept * 432
