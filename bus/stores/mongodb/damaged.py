"""Documents in the collections of traces that the bus cannot read: set aside and counted, so they block nothing."""

from __future__ import annotations

import logging
from typing import Final

import bson

from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.forms import DamagedDocument
from bus.stores.mongodb.indexes import DAMAGED
from bus.stores.mongodb.inserting import insert_new

_log = logging.getLogger(__name__)
_MOST_NAMED: Final = 1_000


class DamagedDocuments:
    """Names each such document once in the log."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._named: set[tuple[str, str]] = set()

    @property
    def count(self) -> int:
        """Number of different damaged documents that this process met, up to a thousand."""
        return len(self._named)

    def note(self, collection: str, form: Form, error: DamagedDocument) -> None:
        """Log a document that a reader leaves out."""
        name = (collection, str(form.get("_id")))
        if name not in self._named and len(self._named) < _MOST_NAMED:
            self._named.add(name)
            _log.error("document %s of %s is left out: it is not one of this bus (%s)", name[1], collection, error)

    async def set_aside(self, collection: str, form: Form, error: DamagedDocument) -> None:
        """Copy a document that a write takes the place of to ``damaged``, so that nothing of it is lost."""
        self.note(collection, form, error)
        copy = {
            "_id": f"{collection} {form['_id']} {form.get('revision', '')}",
            "reason": str(error),
            "bson": bson.encode(form),  # as it is: it may not be valid as a part of another document
        }
        await insert_new(self._connection, DAMAGED, [copy])
