"""The lookup proxies in front of nsqlookupds."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import quantiles, rate

LOOKUP: Final = Dashboard(
    "pier-lookup",
    "Pier: the lookup proxy",
    "What NSQ clients ask of the lookup proxies, and which clusters answer these.",
    [
        Row(
            "Lookups",
            [
                Panel(
                    "Answered",
                    [Query(rate("bus_lookups_total", by="how"), "{{how}}")],
                    "reqps",
                    "From memory, or asked of clusters.",
                ),
                Panel(
                    "From memory",
                    [Query(f"""{rate("bus_lookups_total", 'how="cached"')} / {rate("bus_lookups_total")}""", "share")],
                    "percentunit",
                ),
                Panel("Asking clusters", quantiles("bus_lookup_seconds"), "s"),
            ],
        ),
        Row(
            "Clusters",
            [
                Panel(
                    "Answering",
                    [Query("min by (cluster) (bus_lookup_cluster_up)", "{{cluster}}")],
                    about="0: no nsqlookupd of it answers.",
                ),
                Panel(
                    "Lookups without an answer",
                    [Query(rate("bus_lookup_failures_total", by="cluster"), "{{cluster}}")],
                    "reqps",
                ),
                Panel("Proxies", [Query('sum(up{job="pier", role="lookup"})', "answering")]),
            ],
        ),
    ],
)
