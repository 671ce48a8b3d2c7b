"""Alarms of brokers: those that their administration reports, and messages published to another one than planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Facts, PublishTarget
from bus.domain.health.vitals import NodeFigures
from bus.domain.sizes import format_size
from bus.localized_text import LocalizedText, listed, localized

_MOST_NAMES: Final = 3
_MAKE_ROOM: Final = localized(
    "see what fills its queues; meanwhile the bus uses the other cluster, or hands messages to dispatchers"
)


def clusters(facts: Facts) -> Iterator[Alarm]:
    """Yield the alarms of clusters of brokers that their administration reports."""
    for found in facts.brokers:
        for node in found.nodes:
            yield from _of_node(found.cluster, node)
        if found.in_flow:
            what = localized(
                "{cluster} slows down or holds {count} of its {of} connections",
                cluster=found.cluster,
                count=found.in_flow,
                of=found.connections,
            )
            step = localized("see its memory and its disks, and which queues are slow; more nodes, or faster disks")
            yield _about("broker-flow", Severity.WARNING, found.cluster, found.cluster, what, step)


def _of_node(cluster: str, node: NodeFigures) -> Iterator[Alarm]:
    place, subject = {"node": node.name, "cluster": cluster}, f"{node.name}@{cluster}"
    if node.partitions:
        names = listed(node.partitions, _MOST_NAMES)
        what = localized("{node} of {cluster} does not see {names}, though they run", names=names, **place)
        step = localized("repair the network between them, and restart the smaller part: rabbitmqctl cluster_status")
        yield _about("broker-partition", Severity.CRITICAL, cluster, subject, what, step)
    if not node.is_running:
        what = localized("{node} of {cluster} is down", **place)
        step = localized("start it again; its copies of queues are missing until then")
        yield _about("broker-node", Severity.WARNING, cluster, subject, what, step)
    if node.memory_alarm:
        used, limit = format_size(node.memory), format_size(node.memory_limit)
        what = localized(
            "{node} of {cluster} has {used} in memory, with a limit of {limit}: the cluster takes no messages",
            used=used,
            limit=limit,
            **place,
        )
        yield _about("broker-memory", Severity.CRITICAL, cluster, subject, what, _MAKE_ROOM)
    if node.disk_alarm:
        free, limit = format_size(node.disk_free), format_size(node.disk_limit)
        what = localized(
            "{node} of {cluster} has {free} left on its disk, with a limit of {limit}: the cluster takes no messages",
            free=free,
            limit=limit,
            **place,
        )
        yield _about("broker-disk", Severity.CRITICAL, cluster, subject, what, _MAKE_ROOM)


def _about(
    rule: str, severity: Severity, cluster: str, subject: str, what: LocalizedText, step: LocalizedText
) -> Alarm:
    return Alarm(rule, severity, what, step, "clusters", None, subject=subject, cause=f"part:{cluster}")


def publishing(facts: Facts) -> Iterator[Alarm]:
    """Yield the receivers that publish elsewhere than to the primary cluster."""
    for found in facts.publishing:
        if found.cluster != found.primary:
            yield _chosen(found) if found.is_chosen else _failed_over(found)


def _chosen(found: PublishTarget) -> Alarm:
    what = localized(
        "{url} publishes over {transport} to {cluster}, as chosen by hand",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
    )
    step = localized("bus cluster auto goes back to the primary")
    return Alarm("chosen-cluster", Severity.INFO, what, step, "clusters", subject=_subject(found))


def _failed_over(found: PublishTarget) -> Alarm:
    what = localized(
        "{url} publishes over {transport} to {cluster}, since {primary} is not well",
        url=found.url,
        transport=found.transport,
        cluster=found.cluster,
        primary=found.primary,
    )
    step = localized("repair {primary}; it goes back then", primary=found.primary)
    cause = f"part:{found.primary}"
    return Alarm("failed-over", Severity.WARNING, what, step, "clusters", subject=_subject(found), cause=cause)


def _subject(found: PublishTarget) -> str:
    return f"{found.transport}@{found.url}"
