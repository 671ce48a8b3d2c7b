"""The metrics of several processes as those of one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

_log = logging.getLogger(__name__)
_WITHIN: Final = 1.0
# What is not added up: of an age and of a trouble the greatest counts, of what should be up the least.
_GREATEST: Final = frozenset({"bus_spool_oldest_seconds", "bus_degraded", "bus_breaker_state", "bus_build_info"})
_LEAST: Final = frozenset({"bus_store_up", "bus_broker_up"})
# Of the store, which they share: each tells the same.
_SHARED: Final = frozenset({"bus_compensations"})


async def fetched(urls: Sequence[str], key: str) -> list[bytes]:
    """Return the metrics of those processes that answer; ``key`` is the metrics' own."""
    import httpx  # noqa: PLC0415 - a process that is alone asks nobody

    async def one(client: httpx.AsyncClient, url: str) -> bytes:
        try:
            answer = await client.get(f"{url}/metrics")
            return answer.raise_for_status().content
        except httpx.HTTPError as error:
            _log.warning("the metrics of %s are left out: %r", url, error)
            return b""

    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(timeout=_WITHIN, headers=headers, trust_env=False) as client:
        return list(await asyncio.gather(*(one(client, url) for url in urls)))


def merged(texts: Iterable[bytes]) -> bytes:
    """Return one text of the Prometheus format: each sample with that of the same labels in the other texts."""
    comments: dict[str, list[str]] = {}
    samples: dict[str, dict[str, float]] = {}
    for text in texts:
        family = ""
        told: list[str] = []
        for line in text.decode().splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                told = comments.setdefault(family, [])
            if line.startswith("#"):
                if len(told) < 2:  # noqa: PLR2004 - its help and its type
                    told.append(line)
                continue
            name, _, value = line.rpartition(" ")
            found = samples.setdefault(family, {})
            found[name] = _joined(family)(found[name], float(value)) if name in found else float(value)
    lines: list[str] = []
    for family, told in comments.items():
        lines += told
        lines += [f"{name} {value!r}" for name, value in samples.get(family, {}).items()]
    return "\n".join([*lines, ""]).encode()


def _joined(family: str) -> Callable[[float, float], float]:
    if family in _GREATEST or family in _SHARED or family.endswith("_created"):
        return max
    return min if family in _LEAST else float.__add__
