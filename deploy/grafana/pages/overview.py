"""The dashboard of the bus as a whole."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import OR_NONE, backlog, quantiles, rate, retrying, success

OVERVIEW: Final = Dashboard(
    "pier-overview",
    "Pier: overview",
    "How much flows, how well, and where it piles up.",
    [
        Row(
            "Now",
            [
                Panel("Accepted", [Query(rate("bus_messages_accepted_total"))], "reqps", kind="stat", width=4),
                Panel(
                    "Delivered",
                    [Query(rate("bus_deliveries_total", 'status="delivered"'))],
                    "reqps",
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Success",
                    [Query(success())],
                    "percentunit",
                    "The share of attempts that delivered.",
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "On the transports",
                    [Query(backlog("", ""))],
                    about="Messages that wait for a dispatcher, on brokers and in direct queues.",
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Waiting for another attempt",
                    [Query(f"{retrying('', '')} {OR_NONE}")],
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Parts that are not well",
                    [Query(f"count(max by (part) (bus_degraded) > 0) {OR_NONE}")],
                    about="/readyz of any process and bus doctor name them.",
                    kind="stat",
                    width=4,
                    limits=(1, 3),
                ),
            ],
        ),
        Row(
            "Volume",
            [
                Panel(
                    "Accepted by destination",
                    [Query(rate("bus_messages_accepted_total", by="destination"), "{{destination}}")],
                    "reqps",
                ),
                Panel(
                    "Outcomes of attempts", [Query(rate("bus_deliveries_total", by="status"), "{{status}}")], "reqps"
                ),
                Panel("Success", [Query(success(), "delivered at this attempt")], "percentunit"),
            ],
        ),
        Row(
            "Backlog and age",
            [
                Panel("On the transports", [Query(backlog("", "destination"), "{{destination}}")]),
                Panel(
                    "Waiting for another attempt",
                    [Query(retrying("", "destination"), "{{destination}}")],
                ),
                Panel(
                    "Oldest record of a local queue",
                    [Query("max by (spool, consumer) (bus_spool_oldest_seconds)", "{{spool}} for {{consumer}}")],
                    "s",
                    "How long the oldest record has waited: to be published, or for the store.",
                ),
            ],
        ),
        Row(
            "Latency",
            [
                Panel("From accepted to delivered", quantiles("bus_delivery_latency_seconds"), "s", width=12),
                Panel(
                    "One POST",
                    quantiles("bus_delivery_attempt_seconds"),
                    "s",
                    "The subscribers' own time.",
                    width=12,
                ),
            ],
        ),
        Row(
            "Errors",
            [
                Panel(
                    "Given up",
                    [
                        Query(
                            rate("bus_deliveries_dead_total", by="destination, subscription"),
                            "{{destination}}/{{subscription}}",
                        )
                    ],
                    "reqps",
                    "Deliveries that are dead: a person resends them.",
                ),
                Panel(
                    "Refused for now (429)",
                    [
                        Query(
                            rate("bus_messages_turned_away_total", by="destination, reason"),
                            "{{destination}}: {{reason}}",
                        )
                    ],
                    "reqps",
                ),
                Panel(
                    "Breakers that are not closed",
                    [Query("max by (subscription) (bus_breaker_state) > 0", "{{subscription}}")],
                    about="1 half open, 2 open.",
                ),
            ],
        ),
    ],
)
