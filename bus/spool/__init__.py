"""The local durable queue on one SQLite file per directory.

``AsyncSpool`` (an event loop's, by its ``Driver``) and ``BlockingSpool`` (threads') drive one ``Engine``, which moves
the in-memory ``Cursors`` and the ``SpoolFile`` in step. A ``Journal`` has several of an event loop's in one file.
"""

from __future__ import annotations

from bus.spool.aio import AsyncSpool
from bus.spool.blocking import BlockingSpool
from bus.spool.journal import Journal
from bus.spool.lock import is_live, owner
from bus.spool.options import Options
from bus.spool.section import SectionOptions

__all__ = ["AsyncSpool", "BlockingSpool", "Journal", "Options", "SectionOptions", "is_live", "owner"]
