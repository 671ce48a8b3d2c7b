"""The processes of the bus, and their local queues."""

from __future__ import annotations

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row
from deploy.grafana.queries import OF_PROCESS, PROCESS_CHOICE, quantile, rate

PROCESSES: Final = Dashboard(
    "pier-processes",
    "Pier: processes and spools",
    "Which processes there are, how they are, and what their local queues hold.",
    [
        Row(
            "Processes",
            [
                Panel(
                    "Answering",
                    [Query('sum by (role) (up{job="pier"})', "{{role}}")],
                    about="Processes by role that could be scraped.",
                ),
                Panel(
                    "Age",
                    [Query(f"time() - process_start_time_seconds{{{OF_PROCESS}}}", "{{role}} {{instance}}")],
                    "s",
                ),
                Panel(
                    "Processor",
                    [Query(rate("process_cpu_seconds_total", OF_PROCESS, "role, instance"), "{{role}} {{instance}}")],
                    "percentunit",
                    "Of one core.",
                ),
                Panel(
                    "Memory",
                    [Query(f"process_resident_memory_bytes{{{OF_PROCESS}}}", "{{role}} {{instance}}")],
                    "bytes",
                ),
                Panel(
                    "Open files",
                    [
                        Query(
                            f"process_open_fds{{{OF_PROCESS}}} / process_max_fds{{{OF_PROCESS}}}",
                            "{{role}} {{instance}}",
                        )
                    ],
                    "percentunit",
                    "Of those that it may have: connections, and files of queues and the store.",
                ),
                Panel("Versions", [Query("count by (version) (bus_build_info)", "{{version}}")]),
            ],
        ),
        Row(
            "Event loop",
            [
                Panel(
                    "Held up, p99",
                    [
                        Query(
                            quantile(0.99, "bus_loop_stall_seconds", OF_PROCESS, "role, instance"),
                            "{{role}} {{instance}}",
                        )
                    ],
                    "s",
                    "Of the pauses of 5 ms and more, in which all that the process does waits. Worry above 0.1 s.",
                    width=12,
                ),
                Panel(
                    "Time held up, a second",
                    [Query(rate("bus_loop_stall_seconds_sum", OF_PROCESS, "role, instance"), "{{role}} {{instance}}")],
                    "percentunit",
                    width=12,
                ),
            ],
        ),
        Row(
            "Local queues",
            [
                Panel(
                    "Records",
                    [
                        Query(
                            f"sum by (spool, consumer) (bus_spool_records{{{OF_PROCESS}}})",
                            "{{spool}} for {{consumer}}",
                        )
                    ],
                ),
                Panel(
                    "Bytes",
                    [
                        Query(
                            f"sum by (role, instance, spool) (bus_spool_bytes{{{OF_PROCESS}}})",
                            "{{role}} {{instance}} {{spool}}",
                        )
                    ],
                    "bytes",
                ),
                Panel(
                    "Oldest record",
                    [
                        Query(
                            f"max by (spool, consumer) (bus_spool_oldest_seconds{{{OF_PROCESS}}})",
                            "{{spool}} for {{consumer}}",
                        )
                    ],
                    "s",
                ),
                Panel(
                    "Damaged records set aside",
                    [
                        Query(
                            f"sum by (role, instance, spool) (bus_spool_damaged{{{OF_PROCESS}}})",
                            "{{role}} {{instance}} {{spool}}",
                        )
                    ],
                    about="Above 0: bus spool show DIR says what they are.",
                ),
                Panel(
                    "Swept",
                    [Query(rate("bus_swept_total", OF_PROCESS, "instance"), "{{instance}}")],
                    "reqps",
                    "Records of queues whose process is gone that sweepers sent on their way.",
                ),
                Panel(
                    "Straight from producers",
                    [Query(rate("bus_messages_fallback_total", by="source"), "{{source}}")],
                    "reqps",
                    "Of producers whose own disk refuses.",
                ),
            ],
        ),
        Row(
            "Trace events",
            [
                Panel(
                    "Passed on",
                    [Query(rate("bus_events_emitted_total", OF_PROCESS, "stage"), "{{stage}}")],
                    "reqps",
                    width=12,
                ),
                Panel("Lost", [Query(rate("bus_events_lost_total", OF_PROCESS, "why"), "{{why}}")], "reqps", width=12),
            ],
        ),
    ],
    [PROCESS_CHOICE],
)
