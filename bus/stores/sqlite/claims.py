"""Claims in a file that the processes of one port share; nothing of it is synced, for what is lost may be asked for."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import apsw

from bus.files import make_private
from bus.ports.claims import ClaimResult
from bus.stores.sqlite.errors import DAMAGED, translating
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
NAME: Final = "claims.db"
_MOST: Final = 200_000
"""Names kept, some 20 MB; of ids older than the latest forgotten one the store is asked."""
_BUSY_MS: Final = 5
_MOST_UNSETTLED: Final = 10_000
"""Names kept to be settled while that is not possible; of the others the store is asked."""
_ID_BYTES: Final = 16
_TIME_BYTES: Final = 6  # the first of an id, milliseconds
_STORING, _ACCEPTED, _DOUBTFUL = range(3)
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS claims (
    n INTEGER PRIMARY KEY, name BLOB UNIQUE NOT NULL, owner TEXT NOT NULL, state INTEGER NOT NULL, said BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS horizon (only INTEGER PRIMARY KEY CHECK (only = 0), time INTEGER NOT NULL);
COMMIT;
"""


class SharedClaims:
    """The file, opened by one process.

    A call takes microseconds, or waits for 5 ms at most. A file that cannot be used gives no information: then a
    message may be accepted twice, and none is lost.

    Parameters
    ----------
    owner
        The process, the same after a restart: messages that it was storing when it ended are settled by ``recover``.
    former
        Processes that do not come back, and whose queues this one has.
    now
        Milliseconds since the epoch; a process that makes the file has no record of earlier ids.

    Raises
    ------
    StoreError
        The file cannot be made.
    """

    def __init__(self, directory: Path, owner: str, now: int, former: Collection[str] = ()) -> None:
        self._owner = owner
        self._former = (owner, *former)
        # What is to be settled of an earlier life, until it is.
        self._recovered: Mapping[bytes, bytes] | None = None
        self._unsettled: deque[tuple[int, bytes, bytes]] = deque(maxlen=_MOST_UNSETTLED)
        self._outage = Outage(_log, "what the other processes accepted is not known, a repetition may be accepted")
        path = directory / NAME
        with translating(NAME):
            try:
                self._connection = _open(path, now)
            except DAMAGED as error:
                _log.warning("%s is damaged and made anew; a repetition may be accepted: %s", NAME, error)
                for suffix in ("", "-wal", "-shm"):
                    path.with_name(f"{NAME}{suffix}").unlink(missing_ok=True)
                self._connection = _open(path, now)

    def claim(self, names: Collection[bytes], asked: Collection[bytes]) -> ClaimResult:
        """Claim names for the caller, if it can have all that are not accepted yet."""
        try:
            with self._connection:
                self._write_settled()
                claimed = self._claim(names, asked)
            self._settled()
            return claimed  # noqa: TRY300 - the block before may raise at its end
        except apsw.BusyError:
            return ClaimResult({}, storing=names, is_locked=True)
        except apsw.Error as error:
            self._outage.goes_on(error)
            return ClaimResult({})

    def recover(self, accepted: Mapping[bytes, bytes]) -> None:
        """Settle what an earlier life of this process was storing when it ended."""
        self._recovered = accepted
        self._settle()

    def settle(self, accepted: Mapping[bytes, bytes], refused: Collection[bytes]) -> None:
        """Record the results of claimed names."""
        self._unsettled.extend((_ACCEPTED, said, name) for name, said in accepted.items())
        self._unsettled.extend((_DOUBTFUL, b"", name) for name in refused)
        self._settle()

    def _settle(self) -> None:
        try:
            with self._connection:
                self._write_settled()
            self._settled()
        except apsw.BusyError:
            return  # with the next call
        except apsw.Error as error:
            self._outage.goes_on(error)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _claim(self, names: Collection[bytes], asked: Collection[bytes]) -> ClaimResult:
        rows: list[Any] = self._connection.executemany(
            "SELECT name, state, said FROM claims WHERE name = ?", [(name,) for name in names]
        ).fetchall()
        known = {name: said for name, state, said in rows if state == _ACCEPTED}
        found = {name for name, _, _ in rows}
        doubtful = {name for name, state, _ in rows if state == _DOUBTFUL}
        doubtful |= {name for name in names if name not in found and self._is_old(name)}
        storing = {name for name, state, _ in rows if state == _STORING}
        if storing - set(asked) or doubtful - set(asked):
            return ClaimResult(known, doubtful - set(asked), storing - set(asked))
        claimed = [(name, self._owner, _STORING) for name in names if name not in known]
        self._connection.executemany(
            "INSERT INTO claims (name, owner, state, said) VALUES (?, ?, ?, x'')"
            " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, state = excluded.state",
            claimed,
        )
        self._forget()
        return ClaimResult(known)

    def _is_old(self, name: bytes) -> bool:
        if len(name) != _ID_BYTES:
            return False  # of a key the store was asked anyway
        horizon: Any = self._connection.execute("SELECT time FROM horizon").get
        return int.from_bytes(name[:_TIME_BYTES]) < int(horizon)

    def _forget(self) -> None:
        """Forget the oldest beyond the bound, and from when on no id was forgotten."""
        gone: list[Any] = self._connection.execute(
            "DELETE FROM claims WHERE n <= (SELECT max(n) FROM claims) - ? AND state != ? RETURNING name",
            (_MOST, _STORING),
        ).fetchall()
        times = [int.from_bytes(name[:_TIME_BYTES]) for (name,) in gone if len(name) == _ID_BYTES]
        if times:
            self._connection.execute("UPDATE horizon SET time = max(time, ?)", (max(times) + 1,))

    def _write_settled(self) -> None:
        if self._recovered is not None:
            self._connection.executemany(
                "INSERT INTO claims (name, owner, state, said) VALUES (?, ?, ?, ?) ON CONFLICT (name)"
                " DO UPDATE SET state = excluded.state, said = excluded.said WHERE state != excluded.state",
                [(name, self._owner, _ACCEPTED, said) for name, said in self._recovered.items()],
            )
        if self._recovered is not None or len(self._unsettled) == self._unsettled.maxlen:
            self._connection.executemany(
                "UPDATE claims SET state = ? WHERE owner = ? AND state = ?",
                [(_DOUBTFUL, owner, _STORING) for owner in self._former],
            )
        if self._unsettled:
            self._connection.executemany("UPDATE claims SET state = ?, said = ? WHERE name = ?", self._unsettled)

    def _settled(self) -> None:
        self._recovered = None
        self._unsettled.clear()
        self._outage.is_over()


def _open(path: Path, now: int) -> apsw.Connection:
    make_private(path)
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(1000)
        connection.execute(_SCHEMA).fetchall()
        connection.execute("INSERT OR IGNORE INTO horizon VALUES (0, ?)", (now,))
        connection.set_busy_timeout(_BUSY_MS)
        connection.transaction_mode = "IMMEDIATE"
    except BaseException:
        connection.close()
        raise
    return connection
