"""Records in quarantine wait for a person, whole, in their transport's lane; what the disk refuses is not taken."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bus.clock import SystemClock
from bus.domain.destination import TransportName
from bus.errors import SpoolError
from bus.ports.quarantine import ForeignRecord
from bus.spool import AsyncSpool
from bus.spool import Options as SpoolOptions
from bus.telemetry import metrics
from bus.testing.spool import MemorySpool
from bus.transports.quarantine import OPERATOR, SpoolQuarantine

FOREIGN = ForeignRecord("nsq", "topic orders, channel billing", "not ours", {"attempts": "1"}, b"\x00\xff{}")


def counted() -> float:
    return metrics.QUARANTINED.labels("nsq")._value.get()


async def test_what_is_kept_waits_for_the_operator_as_it_came() -> None:
    spool = MemorySpool(consumers=(OPERATOR,))
    before = counted()
    await SpoolQuarantine(spool, SystemClock()).keep(FOREIGN)
    (record,) = await spool.claim(OPERATOR, 10, "nsq")
    assert msgspec.msgpack.decode(record.payload, type=ForeignRecord) == FOREIGN
    assert counted() == before + 1


async def test_what_does_not_fit_is_refused_and_not_counted() -> None:
    spool = MemorySpool(consumers=(OPERATOR,), limit=1)
    before = counted()
    with pytest.raises(SpoolError):
        await SpoolQuarantine(spool, SystemClock()).keep(FOREIGN)
    assert counted() == before


@pytest.mark.parametrize("transport", TransportName)
async def test_a_spool_on_disk_takes_what_each_transport_sets_aside(tmp_path: Path, transport: TransportName) -> None:
    spool = await AsyncSpool.open(tmp_path / "quarantine", SpoolOptions(consumers=(OPERATOR,)))
    await SpoolQuarantine(spool, SystemClock()).keep(FOREIGN._replace(transport=transport))
    assert [record.lane for record in await spool.claim(OPERATOR, 10, transport.value)] == [transport.value]
    await spool.close()
