"""The MongoDB store: a collection per day and retention class, and small ones for unfinished work and configuration.

Every trace is one document with a ``revision``. A write reads it, merges by the rules of ``bus.domain.tracing.trace``,
and puts it back only where the revision is still the one that was read; otherwise it reads and merges again. The merge
commutes and is idempotent, so any number of processes may write the same messages in any order and end with the same
document. Update operators alone (``$max`` and the like) could not do it: what searches need, the worst state of all
deliveries and the list of open ones, follows from the whole document.
"""

from bus.stores.mongodb.store import MongodbStore

__all__ = ["MongodbStore"]
