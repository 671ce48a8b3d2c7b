"""A manifest: the files that one commit adds to the tables, as one small JSON document."""

from __future__ import annotations

from typing import Any, Final

import msgspec

VERSION: Final = 1


class DataFile(msgspec.Struct, frozen=True):
    """One Parquet file.

    Attributes
    ----------
    path
        Below the lake's root.
    rows, bytes
        How many it has.
    sha256
        Of its bytes, in hexadecimal.
    least, greatest
        Of the table's time column, in microseconds since the epoch; None where the file has none.
    """

    path: str
    rows: int
    bytes: int
    sha256: str
    least: int | None = None
    greatest: int | None = None


class Manifest(msgspec.Struct, frozen=True):
    """The files and facts that one commit adds.

    Attributes
    ----------
    line
        The committing job with its version, such as ``rollup-v1``. Commits of different lines are independent of
        each other.
    name
        The commit, unique in its line: the number of a batch, or a natural key.
    tables
        Files added to each table.
    replaces
        Names of commits of this line that this one replaces: it has all their rows.
    facts
        Data of the job's own, to be read by a later run.
    published
        When it could be read, in milliseconds since the epoch; 0 where that was not written down.
    """

    line: str
    name: str
    tables: dict[str, list[DataFile]]
    replaces: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    version: int = VERSION
    published: int = 0

    @property
    def others(self) -> list[str]:
        """The names that it replaces, without its own: a commit that replaced itself would lose its rows."""
        return [name for name in self.replaces if name != self.name]

    def rows(self, table: str) -> int:
        """Return how many rows it adds to a table."""
        return sum(file.rows for file in self.tables.get(table, ()))


_encoder: Final = msgspec.json.Encoder(order="deterministic")
_decoder: Final = msgspec.json.Decoder(Manifest)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the document."""
    return _encoder.encode(manifest)


def decode_manifest(text: bytes) -> Manifest:
    """Undo ``encode_manifest``; raises ``msgspec.DecodeError`` when the text is something else."""
    return _decoder.decode(text)
