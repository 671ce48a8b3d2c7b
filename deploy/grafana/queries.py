"""Queries that dashboards share, and what their viewers choose.

A gauge that several processes tell of the same thing (a broker's backlog, what waits for a retry) is the greatest of
what they say; what each has of its own (a direct queue, a spool, permits) is summed.
"""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Query, Variable

OF_DESTINATION: Final = 'destination=~"$destination"'
OF_SUBSCRIPTION: Final = f'{OF_DESTINATION}, subscription=~"$subscription"'
# Permits and breakers name a subscription with its destination.
OF_LANE: Final = 'subscription=~"$destination/$subscription"'
OF_PROCESS: Final = 'instance=~"$instance"'
OR_NONE: Final = "or vector(0)"


def rate(metric: str, labels: str = "", by: str = "") -> str:
    """Return events a second, in all or by some labels."""
    selected = f"{metric}{{{labels}}}" if labels else metric
    return f"sum{f' by ({by})' if by else ''} (rate({selected}[$__rate_interval]))"


def quantile(share: float, metric: str, labels: str = "", by: str = "") -> str:
    """Return within which time a share of what was measured lies."""
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', labels, f'le, {by}' if by else 'le')})"


def quantiles(metric: str, labels: str = "") -> list[Query]:
    """Return the median, and within which time most, and nearly all, of what was measured lies."""
    return [Query(quantile(share, metric, labels), f"p{share * 100:.0f}") for share in (0.5, 0.9, 0.99)]


def backlog(labels: str, by: str) -> str:
    """Return what waits on transports, by some labels."""
    each = "destination, subscription, transport"
    also = f", {labels}" if labels else ""
    own = f'sum by ({each}) (bus_broker_backlog{{transport="direct"{also}}})'
    shared = f'max by ({each}) (bus_broker_backlog{{transport!="direct"{also}}})'
    return f"sum{f' by ({by})' if by else ''} ({own} or {shared})"


def retrying(labels: str, by: str) -> str:
    """Return the deliveries that wait for another attempt, by some labels."""
    selected = f"bus_compensations{{{labels}}}" if labels else "bus_compensations"
    return f"sum{f' by ({by})' if by else ''} (max by (destination, subscription) ({selected}))"


def success(labels: str = "") -> str:
    """Return the share of attempts that delivered."""
    also = f", {labels}" if labels else ""
    return f"""{rate("bus_deliveries_total", f'status="delivered"{also}')} / {rate("bus_deliveries_total", labels)}"""


DESTINATION_CHOICE: Final = Variable(
    "destination", "Destination", "label_values(bus_messages_accepted_total, destination)"
)
SUBSCRIPTION_CHOICE: Final = Variable(
    "subscription",
    "Subscription",
    'label_values(bus_delivery_attempt_seconds_count{destination=~"$destination"}, subscription)',
)
PROCESS_CHOICE: Final = Variable("instance", "Process", "label_values(bus_build_info, instance)")
