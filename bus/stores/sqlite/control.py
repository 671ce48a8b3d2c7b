"""``control.db``: one writer, whose jobs share a commit, and one reader for point reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from bus.errors import BusError, StoreUnavailable
from bus.localized_text import localized
from bus.stores.gathering import BatchCollector
from bus.stores.sqlite.connection import inode_of, patiently
from bus.stores.sqlite.errors import translating
from bus.stores.sqlite.locking import WriteLock

Result = TypeVar("Result")
Job = Callable[[apsw.Connection], Any]
_NAME: Final = "control.db"


class _Task(NamedTuple):
    job: Job
    synced: bool


class Control:
    """The file of unfinished work and documents; nothing of it is kept in memory, for other processes change it."""

    def __init__(self, writer: apsw.Connection, reader: apsw.Connection, turn: WriteLock, executor: Executor) -> None:
        self._writer = writer
        self._inode = inode_of(writer.filename)
        self._reader = reader
        self._reader.set_busy_timeout(0)
        self._turn = turn
        self._executor = executor
        self._jobs: BatchCollector[_Task, Any] = BatchCollector(self._commit, limit=256)
        self._is_synced = True

    async def read(self, query: str, bindings: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a short query over what is committed."""
        with translating(_NAME):
            return await patiently(lambda: self._reader.execute(query, bindings).fetchall())

    async def run(self, job: Callable[[apsw.Connection], Result], *, synced: bool = True) -> Result:
        """Run a job in a transaction and return its result once that is durable.

        A ``BusError`` that the job raises before it changes anything is the caller's alone; every other error
        undoes the whole transaction.

        Parameters
        ----------
        synced
            False for a change that costs no fsync of its own: a crash of the host, though not of the process, may
            undo it until the next one that is synced.
        """
        result: Result = await self._jobs.add(_Task(job, synced))
        return result

    async def close(self) -> None:
        """Commit the jobs that wait, and close the file."""
        await self._jobs.close()
        with translating(_NAME):
            self._reader.close()
            await self._in_thread(self._writer.close)
        self._turn.close()

    async def _commit(self, tasks: list[_Task]) -> list[Any]:
        with translating(_NAME):
            async with self._turn.held():
                self._sync(any(task.synced for task in tasks))
                await patiently(partial(self._writer.execute, "BEGIN IMMEDIATE"))
                try:
                    self._check_present()
                    results = [self._result_of(task.job) for task in tasks]
                    await self._in_thread(partial(self._writer.execute, "COMMIT"))
                except BaseException:
                    self._roll_back()
                    raise
        return results

    def _sync(self, synced: bool) -> None:
        """Choose whether the next commit waits for the disk."""
        if synced != self._is_synced:
            self._writer.pragma("synchronous", "FULL" if synced else "NORMAL")
            self._is_synced = synced

    def _check_present(self) -> None:
        if inode_of(self._writer.filename) != self._inode:
            raise StoreUnavailable(
                localized(
                    "{file} was removed or replaced while the bus has it open; nothing was written",
                    file=self._writer.filename,
                ),
                hint=localized("restart every process of the bus on this directory"),
            )

    def _result_of(self, job: Job) -> Any:
        try:
            return job(self._writer)
        except BusError as error:
            return error

    async def _in_thread(self, call: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def _roll_back(self) -> None:
        with suppress(apsw.Error):  # the failure that led here is the one to report
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
