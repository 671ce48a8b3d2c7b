from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.servers import need, nsq

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def programs() -> Path:
    return need("nsq")


@pytest.fixture(scope="session")
def shared(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[nsq.NsqServers]:
    """Two nsqlookupds and two nsqds that no test harms."""
    with nsq.running(programs, tmp_path_factory.mktemp("nsq")) as servers:
        yield servers


@pytest.fixture(scope="session", autouse=True)
def _aging(shared: nsq.NsqServers) -> Iterator[str]:
    """Channels of the first nsqd that were made when the session began."""
    codes = [f"aged-{n}" for n in range(1, 9)]
    for code in codes:
        shared.nsqds[0].call("/topic/create", topic=code)
        shared.nsqds[0].call("/channel/create", topic=code, channel="billing")
    return iter(codes)


@pytest.fixture
def aged(_aging: Iterator[str]) -> str:
    """A destination whose messages nsqd sees time out at once."""
    return next(_aging)


@pytest.fixture
def own(programs: Path, tmp_path: Path) -> Iterator[nsq.NsqServers]:
    """Two of each to kill, stop, pause and wipe."""
    with nsq.running(programs, tmp_path) as servers:
        yield servers


@pytest.fixture
def alone(programs: Path, tmp_path: Path) -> Iterator[nsq.NsqdServer]:
    """One nsqd that registers nowhere, to kill, stop, pause and wipe."""
    with nsq.NsqdServer(programs, tmp_path / "alone") as server:
        yield server


@pytest.fixture
def code() -> str:
    """A destination that no other test uses."""
    return f"orders-{next(_numbers)}"


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}
