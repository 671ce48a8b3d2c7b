"""Certificates of subscribers that are about to end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import urlsplit

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts
from bus.domain.health.rulebook import Rulebook
from bus.domain.subscription import Subscription
from bus.domain.times import DAY
from bus.localized_text import listed, localized

_VERY_SOON: Final = 2 * DAY
_MOST_NAMES: Final = 3
_HTTPS: Final = 443


def certificates(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the hosts of subscribers whose certificate ends soon, as any dispatcher saw it last."""
    ends: dict[str, int] = {}
    for one in facts.certificates:
        # Several processes may have seen the old one and the new one: a renewed certificate needs no person.
        ends[one.host] = max(one.not_after, ends.get(one.host, 0))
    using: dict[str, list[Subscription]] = {}
    for subscription in facts.subscriptions if ends else ():
        using.setdefault(_place(subscription), []).append(subscription)
    for host, not_after in ends.items():
        was = f"certificate:{host}" in active
        if host in using and book.is_short("certificate", not_after - facts.now, was=was):
            yield _alarm(host, not_after - facts.now, using[host])


def _alarm(host: str, left: int, using: list[Subscription]) -> Alarm:
    names = listed(sorted(f"{one.destination}/{one.name}" for one in using), _MOST_NAMES)
    if left > 0:
        what = localized("the certificate of {host} ends in {time}: {names}", host=host, time=about(left), names=names)
    else:
        what = localized("the certificate of {host} has ended: {names}", host=host, names=names)
    severity = Severity.CRITICAL if left <= _VERY_SOON else Severity.WARNING
    step = localized("have it renewed there; without one that is good nothing is delivered, and messages wait")
    first = min(using, key=lambda one: one.key)
    link = f"destinations/{first.destination}/subscriptions/{first.name}"
    return Alarm("certificate", severity, what, step, link, subject=host)


def _place(one: Subscription) -> str:
    """Return the host and the port of a subscription that is called over https; empty for any other."""
    try:
        found = urlsplit(one.url)
        port = found.port or _HTTPS
    except ValueError:
        return ""
    return f"{found.hostname}:{port}" if found.scheme == "https" else ""
