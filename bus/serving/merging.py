"""The metrics of several processes as those of one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

_log = logging.getLogger(__name__)
_WITHIN: Final = 1.0
_MOST_BYTES: Final = 64 * 2**20
# What is not added up: of an age and of a trouble the greatest counts, of what should be up the least.
_GREATEST: Final = frozenset(
    {"bus_spool_oldest_seconds", "bus_degraded", "bus_breaker_state", "bus_build_info", "bus_consumer_progress"}
)
_STARTED: Final = "process_start_time_seconds"
_DISKS: Final = frozenset({"bus_disk_free_bytes", "bus_disk_total_bytes", "bus_disk_full_in_seconds"})
_LEAST: Final = frozenset({"bus_store_up", "bus_broker_up", "bus_certificate_left_seconds", _STARTED, *_DISKS})
# Of the store and of brokers, which they share: each tells the same.
_SHARED: Final = frozenset({"bus_compensations", "bus_broker_held"})


async def fetched(urls: Sequence[str], key: str) -> dict[str, bytes]:
    """Return the metrics of processes by URL, empty of those that do not answer; ``key`` is the metrics' own."""
    import httpx  # noqa: PLC0415 - a process that is alone asks nobody

    from bus.network.http_client import bounded_client  # noqa: PLC0415

    async def one(client: httpx.AsyncClient, url: str) -> bytes:
        try:
            async with asyncio.timeout(_WITHIN):
                answer = await client.get(f"{url}/metrics")
            return answer.raise_for_status().content
        except (TimeoutError, httpx.HTTPError) as error:
            _log.warning("the metrics of %s are those of before: %r", url, error)
            return b""

    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with bounded_client(_MOST_BYTES, timeout=_WITHIN, headers=headers, trust_env=False) as client:
        return dict(zip(urls, await asyncio.gather(*(one(client, url) for url in urls)), strict=True))


class Merger:
    """Makes one text of those of several processes; nothing that counts ever goes back while this process lives.

    What a process has counted stays counted when it does not answer, or has begun anew. What those that are older than
    this process had counted before is left out, as it is in the totals of a single process that began anew.
    """

    def __init__(self) -> None:
        self._counted: dict[str, _ProcessCounters] = {}

    def merged(self, own: bytes, others: Mapping[str, bytes]) -> bytes:
        """Return one text of the Prometheus format: each sample with that of the same labels in the other texts.

        Parameters
        ----------
        others
            By URL, empty of a process that did not answer.
        """
        mine = _parsed(own)
        texts = [mine]
        for url, text in others.items():
            found = _parsed(text)
            counted = self._counted.get(url)
            if counted is None and text:
                counted = self._counted[url] = _ProcessCounters(found, is_older=found.since < mine.since)
            texts.append(counted.goes_on(found) if counted is not None else found)
        return _written(texts)


class _Text(NamedTuple):
    """What one process tells: of each family its comments and samples."""

    comments: dict[str, list[str]]
    samples: dict[str, dict[str, float]]

    @property
    def since(self) -> float:
        """When the process began to count, seconds since the epoch."""
        return self.samples.get(_STARTED, {}).get(_STARTED, 0.0)


class _ProcessCounters:
    """What one process has counted in all its lives, by sample.

    Parameters
    ----------
    first
        What it tells first: not counted if the process is ``is_older`` than the one that looks.
    """

    def __init__(self, first: _Text, *, is_older: bool) -> None:
        self._since = first.since
        self._last = first
        self._base: dict[str, dict[str, float]] = {}
        if is_older:
            self._add(first, -1)

    def goes_on(self, text: _Text) -> _Text:
        """Return what a process tells with its counts of all lives; of one that tells nothing, those alone."""
        if text.samples and text.since != self._since:
            self._add(self._last, 1)
            self._since = text.since
        if text.samples:
            self._last = text
        samples = {family: dict(found) for family, found in text.samples.items()}
        for family in self._counts():
            shown = samples[family] = dict(self._base.get(family, {}))
            for name, value in self._last.samples.get(family, {}).items():
                shown[name] = shown.get(name, 0.0) + value
        return _Text(text.comments or self._last.comments, samples)

    def _add(self, text: _Text, times: int) -> None:
        for family in self._counts():
            base = self._base.setdefault(family, {})
            for name, value in text.samples.get(family, {}).items():
                base[name] = base.get(name, 0.0) + times * value

    def _counts(self) -> set[str]:
        """Return the families that only ever go up."""
        told = {family for family, comments in self._last.comments.items() if any(map(_is_counter, comments))}
        return told | self._base.keys()


def _parsed(text: bytes) -> _Text:
    comments: dict[str, list[str]] = {}
    samples: dict[str, dict[str, float]] = {}
    family = ""
    for line in text.decode().splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            comments[family], samples[family] = [], {}
        if line.startswith("#"):
            comments[family].append(line)
        else:
            name, _, value = line.rpartition(" ")
            samples[family][name] = float(value)
    return _Text(comments, samples)


def _written(texts: Sequence[_Text]) -> bytes:
    comments: dict[str, list[str]] = {}
    samples: dict[str, dict[str, float]] = {}
    for text in texts:
        for family, told in text.comments.items():
            comments.setdefault(family, told)
        for family, found in text.samples.items():
            join, joined = _joined(family), samples.setdefault(family, {})
            for name, value in found.items():
                joined[name] = join(joined[name], value) if name in joined else value
    lines: list[str] = []
    for family, told in comments.items():
        lines += told
        lines += [f"{name} {value!r}" for name, value in samples.get(family, {}).items()]
    return "\n".join([*lines, ""]).encode()


def _is_counter(comment: str) -> bool:
    return comment.startswith("# TYPE ") and comment.endswith((" counter", " histogram"))


def _joined(family: str) -> Callable[[float, float], float]:
    if family in _GREATEST or family in _SHARED:
        return max
    return min if family in _LEAST else float.__add__
