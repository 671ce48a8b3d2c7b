"""A copy of a running bus that can be put back: every message that was acknowledged before it began is in it.

Spools are copied as they were before the store: a record leaves a spool only when the store has it, so what is in
neither copy was not acknowledged yet.
"""

from bus.backups.restoring import Extent, RestoreResult, restore
from bus.backups.taking import BackupResult, take

__all__ = ["BackupResult", "Extent", "RestoreResult", "restore", "take"]
