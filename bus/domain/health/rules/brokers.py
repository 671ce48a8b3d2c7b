"""Brokers: what is published elsewhere than planned."""

from __future__ import annotations

from collections.abc import Iterator

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, Publishing
from bus.sentences import sentence


def publishing(facts: Facts) -> Iterator[Alarm]:
    """Yield the receivers that publish elsewhere than to the primary cluster."""
    for found in facts.publishing:
        if found.cluster != found.primary:
            yield _chosen(found) if found.is_chosen else _failed_over(found)


def _chosen(found: Publishing) -> Alarm:
    what = sentence(
        "{url} publishes over {transport} to {cluster}, as chosen by hand",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
    )
    step = sentence("bus cluster auto goes back to the primary")
    return Alarm("chosen-cluster", Severity.INFO, what, step, "clusters", subject=_subject(found))


def _failed_over(found: Publishing) -> Alarm:
    what = sentence(
        "{url} publishes over {transport} to {cluster}, since {primary} is not well",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
        primary=found.primary,
    )
    step = sentence("repair {primary}; it goes back then", primary=found.primary)
    cause = f"part:{found.primary}"
    return Alarm("failed-over", Severity.WARNING, what, step, "clusters", subject=_subject(found), cause=cause)


def _subject(found: Publishing) -> str:
    return f"{found.transport}@{found.url}"
