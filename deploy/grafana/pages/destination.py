"""One destination: what comes in, what goes out, how its subscriptions keep up."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import DESTINATION_CHOICE, OF_DESTINATION, backlog, quantile, rate, retrying

DESTINATION: Final = Dashboard(
    "pier-destination",
    "Pier: a destination",
    "What comes to a destination, what it is published to, and how its subscriptions keep up.",
    [
        Row(
            "In",
            [
                Panel(
                    "Accepted by source",
                    [Query(rate("bus_messages_accepted_total", OF_DESTINATION, "source"), "{{source}}")],
                    "reqps",
                ),
                Panel(
                    "Published",
                    [
                        Query(
                            rate("bus_messages_published_total", OF_DESTINATION, "transport, result"),
                            "{{transport}}: {{result}}",
                        )
                    ],
                    "reqps",
                ),
                Panel(
                    "Refused for now (429)",
                    [Query(rate("bus_messages_turned_away_total", OF_DESTINATION, "reason"), "{{reason}}")],
                    "reqps",
                    "Over a rate, or over the share of a queue; producers keep these and send them again.",
                ),
            ],
        ),
        Row(
            "Out",
            [
                Panel(
                    "Delivered by subscription",
                    [
                        Query(
                            rate("bus_deliveries_total", f'{OF_DESTINATION}, status="delivered"', "subscription"),
                            "{{subscription}}",
                        )
                    ],
                    "reqps",
                ),
                Panel(
                    "Attempts that did not deliver",
                    [
                        Query(
                            rate(
                                "bus_deliveries_total", f'{OF_DESTINATION}, status!="delivered"', "subscription, status"
                            ),
                            "{{subscription}}: {{status}}",
                        )
                    ],
                    "reqps",
                ),
                Panel(
                    "On the transports",
                    [Query(backlog(OF_DESTINATION, "subscription, transport"), "{{subscription}} ({{transport}})")],
                ),
            ],
        ),
        Row(
            "Time",
            [
                Panel(
                    "From accepted to delivered, p99",
                    [
                        Query(
                            quantile(0.99, "bus_delivery_latency_seconds", OF_DESTINATION, "subscription"),
                            "{{subscription}}",
                        )
                    ],
                    "s",
                ),
                Panel(
                    "One POST, p99",
                    [
                        Query(
                            quantile(0.99, "bus_delivery_attempt_seconds", OF_DESTINATION, "subscription"),
                            "{{subscription}}",
                        )
                    ],
                    "s",
                ),
                Panel(
                    "Waiting for another attempt",
                    [Query(retrying(OF_DESTINATION, "subscription"), "{{subscription}}")],
                ),
            ],
        ),
        Row(
            "A strict order",
            [
                Panel(
                    "Who sends and reads",
                    [
                        Query(
                            f"sum by (destination, role) (bus_chain_role{{{OF_DESTINATION}}})",
                            "{{destination}}: {{role}}",
                        )
                    ],
                    about="Each is 1 in the one process that has the role: a sum of 0 or 2 for minutes is wrong.",
                    width=12,
                ),
                Panel(
                    "Moves, and messages written again",
                    [
                        Query(rate("bus_chain_moves_total", OF_DESTINATION, "destination"), "{{destination}}: moves"),
                        Query(
                            rate("bus_messages_written_again_total", OF_DESTINATION, "destination"),
                            "{{destination}}: again",
                        ),
                    ],
                    "reqps",
                    width=12,
                ),
            ],
        ),
    ],
    [DESTINATION_CHOICE],
)
