"""The metrics of the contract; histograms in seconds."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter, which nobody reads

REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)  # when it began, processor time, memory, open files: as every client tells it
# As fine as the statistics of the pages up to a second, so that a quantile is within a factor of 1.7; above it coarse,
# since each subscription has all of them.
_BUCKETS: Final = (
    *(0.001, 0.0015, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 2, 5, 10, 30, 60, 300, 3600),
)

ACCEPTED: Final = Counter(
    "bus_messages_accepted", "Messages accepted durably.", ["destination", "source"], registry=REGISTRY
)
NOT_JSON: Final = Counter(
    "bus_messages_not_json",
    "Messages accepted with a JSON content type and a body that is not JSON; the body is delivered as it is.",
    ["destination", "source"],
    registry=REGISTRY,
)
AGENT_TAKEN: Final = Counter(
    "bus_agent_messages",
    "Messages that a node's agent took: onto its disk, or straight to the receiver where that refused them.",
    ["destination", "source"],
    registry=REGISTRY,
)
FALLBACK: Final = Counter(
    "bus_messages_fallback",
    "Messages that came straight from a producer whose disk refused them.",
    ["destination", "source"],
    registry=REGISTRY,
)
TURNED_AWAY: Final = Counter(
    "bus_messages_turned_away",
    "Messages refused for now (429), by what their destination or key has used up.",
    ["destination", "reason"],
    registry=REGISTRY,
)
PUBLISHED: Final = Counter(
    "bus_messages_published",
    "Messages handed to a transport, by result.",
    ["destination", "transport", "result"],
    registry=REGISTRY,
)
DELIVERIES: Final = Counter(
    "bus_deliveries",
    "Outcomes of deliveries, by status.",
    ["destination", "subscription", "status"],
    registry=REGISTRY,
)
ATTEMPT_SECONDS: Final = Histogram(
    "bus_delivery_attempt_seconds",
    "Time of one POST.",
    ["destination", "subscription"],
    buckets=_BUCKETS,
    registry=REGISTRY,
)
LATENCY_SECONDS: Final = Histogram(
    "bus_delivery_latency_seconds",
    "From accepted to delivered.",
    ["destination", "subscription"],
    buckets=_BUCKETS,
    registry=REGISTRY,
)
FILTER_FAILURES: Final = Counter(
    "bus_filter_failures",
    "Messages on which a filter failed; they were delivered.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
PROBE_FAILURES: Final = Counter(
    "bus_probe_failures",
    "Probes of an open breaker that failed; they spend no attempt.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
DEAD: Final = Counter(
    "bus_deliveries_dead",
    "Deliveries given up after their last retry.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
PERMITS_IN_USE: Final = Gauge("bus_permits_in_use", "Requests in flight.", ["subscription"], registry=REGISTRY)
PERMITS_MAX: Final = Gauge("bus_permits_max", "Requests allowed in flight.", ["subscription"], registry=REGISTRY)
BREAKER_STATE: Final = Gauge("bus_breaker_state", "0 closed, 1 half open, 2 open.", ["subscription"], registry=REGISTRY)
SPOOL_RECORDS: Final = Gauge(
    "bus_spool_records", "Records that wait for a consumer.", ["spool", "consumer"], registry=REGISTRY
)
SPOOL_BYTES: Final = Gauge("bus_spool_bytes", "Bytes in a spool.", ["spool"], registry=REGISTRY)
SPOOL_LIMIT: Final = Gauge(
    "bus_spool_limit_bytes", "Bytes at which a spool takes no new records.", ["spool"], registry=REGISTRY
)
SPOOL_OLDEST: Final = Gauge(
    "bus_spool_oldest_seconds", "Age of the oldest record of a consumer.", ["spool", "consumer"], registry=REGISTRY
)
SPOOL_DAMAGED: Final = Gauge("bus_spool_damaged", "Damaged records set aside.", ["spool"], registry=REGISTRY)
DISK_FREE: Final = Gauge("bus_disk_free_bytes", "Free on the disk of a directory.", ["path"], registry=REGISTRY)
DISK_TOTAL: Final = Gauge(
    "bus_disk_total_bytes", "What may be used of the disk of a directory.", ["path"], registry=REGISTRY
)
DISK_FULL_IN: Final = Gauge(
    "bus_disk_full_in_seconds",
    "When the disk of a directory will be full, if it goes on as in the last hour; none where nothing tells of that.",
    ["path"],
    registry=REGISTRY,
)
BACKLOG: Final = Gauge(
    "bus_broker_backlog",
    "Messages that a transport holds for a subscription.",
    ["destination", "subscription", "transport", "cluster"],
    registry=REGISTRY,
)
BROKER_HELD: Final = Gauge(
    "bus_broker_held",
    "Messages that a broker holds for a subscription, where it tells apart: waiting, in_flight, deferred.",
    ["destination", "subscription", "transport", "state"],
    registry=REGISTRY,
)
PROGRESS: Final = Gauge(
    "bus_consumer_progress",
    "How what waits on a broker is worked off: 0 well, 1 falling behind, 2 not at all, 3 nobody reads.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
BROKER_UP: Final = Gauge("bus_broker_up", "Whether a broker cluster answers.", ["cluster"], registry=REGISTRY)
BROKER_NODES: Final = Gauge(
    "bus_broker_nodes",
    "Nodes of a cluster, by what its administration tells: running or down.",
    ["cluster", "state"],
    registry=REGISTRY,
)
BROKER_ALARMS: Final = Gauge(
    "bus_broker_alarms",
    "Nodes of a cluster that tell of a partition, or of memory or disk used up.",
    ["cluster", "kind"],
    registry=REGISTRY,
)
BROKER_CONNECTIONS: Final = Gauge(
    "bus_broker_connections",
    "Connections of a cluster: all, and those that it slows down.",
    ["cluster", "state"],
    registry=REGISTRY,
)
BROKER_MESSAGES: Final = Gauge(
    "bus_broker_messages",
    "Messages in the bus's queues of a cluster: ready, or unacked.",
    ["cluster", "state"],
    registry=REGISTRY,
)
PRODUCER_OLDEST: Final = Gauge(
    "bus_producer_oldest_seconds",
    "For how long the first message has waited in the queues of a source, as producers tell.",
    ["source"],
    registry=REGISTRY,
)
PRODUCER_RECORDS: Final = Gauge(
    "bus_producer_records",
    "Messages that wait in the queues of a source, as producers tell.",
    ["source"],
    registry=REGISTRY,
)
CERTIFICATE_LEFT: Final = Gauge(
    "bus_certificate_left_seconds",
    "In which time the certificate of a subscriber ends, of those that do within a month.",
    ["host"],
    registry=REGISTRY,
)
QUARANTINED: Final = Counter(
    "bus_quarantined",
    "Records of a broker that are not messages of the bus; they are kept under the data directory.",
    ["transport"],
    registry=REGISTRY,
)
CHAIN_MOVES: Final = Counter(
    "bus_chain_moves",
    "Times that this process had a strictly ordered destination's messages go on with another group of brokers.",
    ["destination"],
    registry=REGISTRY,
)
WRITTEN_AGAIN: Final = Counter(
    "bus_messages_written_again",
    "Messages that came too late in a strict order, and were written again behind all others.",
    ["destination"],
    registry=REGISTRY,
)
CHAIN_ROLE: Final = Gauge(
    "bus_chain_role",
    "Whether this process sends to, or reads, a strictly ordered destination.",
    ["destination", "role"],
    registry=REGISTRY,
)
ORDERED_AGAIN: Final = Counter(
    "bus_ordered_redeliveries",
    "Messages that an ordered partition of NSQ sent again, since they were given back or not finished in time.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
SWEPT: Final = Counter(
    "bus_swept", "Records of queues whose process is gone that a sweeper sent on their way.", registry=REGISTRY
)
EVENTS_EMITTED: Final = Counter("bus_events_emitted", "Trace events passed on.", ["stage"], registry=REGISTRY)
EVENTS_LOST: Final = Counter(
    "bus_events_lost",
    "Trace events that are gone: memory full, oldest files over the limit, lines torn by a kill, stopped too soon.",
    ["why"],
    registry=REGISTRY,
)
SPANS_EXPORTED: Final = Counter("bus_spans_exported", "Spans that the collector of traces took.", registry=REGISTRY)
SPANS_DROPPED: Final = Counter(
    "bus_spans_dropped",
    "Spans that are gone: memory full, refused by the collector, stopped too soon, or broken.",
    ["why"],
    registry=REGISTRY,
)
STORE_UP: Final = Gauge("bus_store_up", "Whether the store takes writes.", registry=REGISTRY)
STORE_BEHIND: Final = Gauge(
    "bus_store_behind_seconds",
    "How far a member of the store's replica set is behind its primary.",
    ["member", "state"],
    registry=REGISTRY,
)
STORE_OPLOG: Final = Gauge("bus_store_oplog_seconds", "How far back the store's oplog goes.", [], registry=REGISTRY)
STORE_BYTES: Final = Gauge(
    "bus_store_bytes", "Bytes of the embedded store: all files, and its largest log.", ["of"], registry=REGISTRY
)
DEGRADED: Final = Gauge("bus_degraded", "1 while a part is down or refuses.", ["part"], registry=REGISTRY)
COMPENSATIONS: Final = Gauge(
    "bus_compensations",
    "Unfinished deliveries that wait for a retry.",
    ["destination", "subscription"],
    registry=REGISTRY,
)
LOOP_STALLS: Final = Histogram(
    "bus_loop_stall_seconds",
    "How long the event loop was held up, if by 5 ms or more.",
    buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
    registry=REGISTRY,
)
ROLE: Final = Gauge("bus_role", "1 for each role of the process.", ["name"], registry=REGISTRY)
ALARM: Final = Gauge(
    "bus_alarm",
    "1 for what people are told of, in the process that tells.",
    ["rule", "severity", "destination", "subscription"],
    registry=REGISTRY,
)
ALARMS: Final = Gauge("bus_alarms", "Incidents that are open.", ["severity"], registry=REGISTRY)
ALARM_NOTICES: Final = Counter(
    "bus_alarm_notices", "What channels were told: taken or failed.", ["channel", "outcome"], registry=REGISTRY
)
BUILD_INFO: Final = Gauge("bus_build_info", "Always 1.", ["version", "node"], registry=REGISTRY)

# Set anew whenever somebody asks; cleared first, so that what is gone is not told of for ever.
SAMPLED: Final = (
    PERMITS_IN_USE,
    PERMITS_MAX,
    BREAKER_STATE,
    SPOOL_RECORDS,
    SPOOL_BYTES,
    SPOOL_OLDEST,
    SPOOL_DAMAGED,
    DISK_FREE,
    DISK_TOTAL,
    DISK_FULL_IN,
    BACKLOG,
    BROKER_HELD,
    PROGRESS,
    BROKER_UP,
    BROKER_NODES,
    BROKER_ALARMS,
    BROKER_CONNECTIONS,
    BROKER_MESSAGES,
    STORE_BEHIND,
    STORE_BYTES,
    CERTIFICATE_LEFT,
    PRODUCER_OLDEST,
    PRODUCER_RECORDS,
    CHAIN_ROLE,
    DEGRADED,
)
LOOKUPS: Final = Counter(
    "bus_lookups", "Lookups of a lookup proxy: answered from memory, or asked of clusters.", ["how"], registry=REGISTRY
)
LOOKUP_SECONDS: Final = Histogram(
    "bus_lookup_seconds",
    "Time in which clusters were asked for one lookup.",
    buckets=_BUCKETS,
    registry=REGISTRY,
)
LOOKUP_FAILURES: Final = Counter(
    "bus_lookup_failures", "Lookups that a cluster did not answer.", ["cluster"], registry=REGISTRY
)
LOOKUP_CLUSTER_UP: Final = Gauge(
    "bus_lookup_cluster_up", "1 while a nsqlookupd of the cluster answers.", ["cluster"], registry=REGISTRY
)
