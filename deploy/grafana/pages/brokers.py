"""Brokers and the store, as the processes of the bus see them."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import backlog, rate

BROKERS: Final = Dashboard(
    "pier-brokers",
    "Pier: brokers and store",
    "Whether brokers and the store answer, and what waits for them.",
    [
        Row(
            "Answering",
            [
                Panel("Store", [Query("min(bus_store_up)")], about="0: a process cannot write to it.", width=8),
                Panel(
                    "Brokers",
                    [Query("min by (cluster) (bus_broker_up)", "{{cluster}}")],
                    about="0: a process does not reach it.",
                ),
                Panel("Parts that are not well", [Query("max by (part) (bus_degraded)", "{{part}}")]),
            ],
        ),
        Row(
            "To the brokers",
            [
                Panel(
                    "Confirmed",
                    [Query(rate("bus_messages_published_total", 'result="confirmed"', "transport"), "{{transport}}")],
                    "reqps",
                ),
                Panel(
                    "Not taken",
                    [Query(rate("bus_messages_published_total", 'result="failed"', "transport"), "{{transport}}")],
                    "reqps",
                    "These go to a dispatcher directly, or stay until they are taken.",
                ),
                Panel(
                    "Waiting to be published",
                    [Query('sum(bus_spool_records{spool="receiver", consumer="publish"})', "records")],
                ),
            ],
        ),
        Row(
            "On the brokers",
            [
                Panel("Waiting", [Query(backlog("", "transport"), "{{transport}}")]),
                Panel(
                    "Not the bus's",
                    [Query(rate("bus_quarantined_total", by="transport"), "{{transport}}")],
                    "reqps",
                    "Records that are no messages of the bus: bus spool show data/quarantine.",
                ),
                Panel(
                    "Ordered messages sent again",
                    [Query(rate("bus_ordered_redeliveries_total"), "redeliveries")],
                    "reqps",
                ),
            ],
        ),
        Row(
            "To the store",
            [
                Panel(
                    "Waiting to be written",
                    [Query('sum by (spool) (bus_spool_records{consumer="store"})', "{{spool}}")],
                    width=12,
                ),
                Panel(
                    "Age of what waits",
                    [Query('max by (spool) (bus_spool_oldest_seconds{consumer="store"})', "{{spool}}")],
                    "s",
                    width=12,
                ),
            ],
        ),
    ],
)
