"""Queues of producers that live on a sweeper's machine: their contents, also if no receiver gets their reports."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from bus.client.spooling.home import homes
from bus.client.spooling.lanes import OUT
from bus.domain.health.vitals import ProducerFigures
from bus.domain.times import MINUTE
from bus.errors import SpoolError
from bus.spool import is_live
from bus.spool.inspect import Inspection

_log = logging.getLogger(__name__)
_LOOKED_AT: Final = 1000
_TOLD: Final = 50


def live_queues(roots: Sequence[Path], now: int) -> list[ProducerFigures]:
    """Return the queues of producers that live in which something has waited for a minute; of many, the oldest.

    Reads files, so it belongs into a thread. What cannot be read, or is gone meanwhile, is left out.

    Parameters
    ----------
    roots
        Below which they are.
    now
        In milliseconds.
    """
    live = (home for root in roots for home in homes(root) if is_live(home))
    found = sorted(_read(islice(live, _LOOKED_AT), now), key=lambda one: -one.oldest)
    return [one for one in found[:_TOLD] if one.oldest >= MINUTE]


def _read(directories: Iterable[Path], now: int) -> Iterable[ProducerFigures]:
    for directory in directories:
        try:
            with Inspection(directory) as inspection:
                consumers = [one for one in inspection.overview().consumers if one.lane.startswith(OUT) and one.records]
        except (SpoolError, OSError) as error:
            _log.debug("what waits in %s is not known: %s", directory, error)
            continue
        oldest = min((one.oldest for one in consumers if one.oldest is not None), default=now)
        source, _, number = directory.stem.rsplit("-", 2)
        records = sum(one.records for one in consumers)
        yield ProducerFigures(source, number, records, max(0, now - oldest), str(directory))
