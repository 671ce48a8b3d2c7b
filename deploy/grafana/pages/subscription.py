"""One subscription: how its subscriber answers, and what waits for it."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import (
    DESTINATION_CHOICE,
    OF_LANE,
    OF_SUBSCRIPTION,
    OR_NONE,
    SUBSCRIPTION_CHOICE,
    backlog,
    quantiles,
    rate,
    retrying,
    success,
)

SUBSCRIPTION: Final = Dashboard(
    "pier-subscription",
    "Pier: a subscription",
    "How a subscriber answers, and what waits for it.",
    [
        Row(
            "Now",
            [
                Panel("Success", [Query(success(OF_SUBSCRIPTION))], "percentunit", kind="stat", width=6),
                Panel("On the transports", [Query(backlog(OF_SUBSCRIPTION, ""))], kind="stat", width=6),
                Panel(
                    "Waiting for another attempt",
                    [Query(f"{retrying(OF_SUBSCRIPTION, '')} {OR_NONE}")],
                    kind="stat",
                    width=6,
                ),
                Panel(
                    "Breaker",
                    [Query(f"max(bus_breaker_state{{{OF_LANE}}})")],
                    about="0 closed, 1 half open, 2 open.",
                    kind="stat",
                    width=6,
                    limits=(1, 2),
                ),
            ],
        ),
        Row(
            "Attempts",
            [
                Panel(
                    "Outcomes", [Query(rate("bus_deliveries_total", OF_SUBSCRIPTION, "status"), "{{status}}")], "reqps"
                ),
                Panel("One POST", quantiles("bus_delivery_attempt_seconds", OF_SUBSCRIPTION), "s"),
                Panel("From accepted to delivered", quantiles("bus_delivery_latency_seconds", OF_SUBSCRIPTION), "s"),
            ],
        ),
        Row(
            "Limits",
            [
                Panel(
                    "Permits",
                    [
                        Query(f"sum by (subscription) (bus_permits_in_use{{{OF_LANE}}})", "{{subscription}}: in use"),
                        Query(f"sum by (subscription) (bus_permits_max{{{OF_LANE}}})", "{{subscription}}: allowed"),
                    ],
                    about="In use at all that is allowed for minutes: the subscriber is the bottleneck.",
                ),
                Panel(
                    "Backlog",
                    [
                        Query(
                            backlog(OF_SUBSCRIPTION, "destination, subscription, transport"),
                            "{{destination}}/{{subscription}} ({{transport}})",
                        )
                    ],
                ),
                Panel(
                    "Breaker",
                    [Query(f"max by (subscription) (bus_breaker_state{{{OF_LANE}}})", "{{subscription}}")],
                    about="0 closed, 1 half open, 2 open.",
                ),
            ],
        ),
        Row(
            "Errors",
            [
                Panel(
                    "Given up",
                    [Query(rate("bus_deliveries_dead_total", OF_SUBSCRIPTION, "subscription"), "{{subscription}}")],
                    "reqps",
                ),
                Panel(
                    "Probes of an open breaker that failed",
                    [Query(rate("bus_probe_failures_total", OF_SUBSCRIPTION, "subscription"), "{{subscription}}")],
                    "reqps",
                ),
                Panel(
                    "Filters that failed, and ordered messages sent again",
                    [
                        Query(
                            rate("bus_filter_failures_total", OF_SUBSCRIPTION, "subscription"),
                            "{{subscription}}: filter",
                        ),
                        Query(
                            rate("bus_ordered_redeliveries_total", OF_SUBSCRIPTION, "subscription"),
                            "{{subscription}}: again",
                        ),
                    ],
                    "reqps",
                ),
            ],
        ),
    ],
    [DESTINATION_CHOICE, SUBSCRIPTION_CHOICE],
)
