"""The NSQ transport, on a client of its own."""

from bus.transports.nsq.config import (
    Compression,
    NsqConfig,
    parse_lookupd,
    parse_nsqd,
    parse_partitions,
    verifying,
)
from bus.transports.nsq.transport import NsqTransport

__all__ = ["Compression", "NsqConfig", "NsqTransport", "parse_lookupd", "parse_nsqd", "parse_partitions", "verifying"]
