"""The local durable queue on one SQLite file per directory.

``AsyncSpool`` (an event loop's) and ``BlockingSpool`` (threads') are drivers of one ``Engine``, which moves the
in-memory ``Cursors`` and the ``SpoolFile`` in step.
"""

from __future__ import annotations

from bus.spool.aio import AsyncSpool
from bus.spool.blocking import BlockingSpool
from bus.spool.lock import is_live, owner
from bus.spool.options import Options

__all__ = ["AsyncSpool", "BlockingSpool", "Options", "is_live", "owner"]
