"""``control.db``: one writer, whose jobs share a commit, and one reader for point reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from bus.errors import BusError
from bus.stores.sqlite import control_sql as sql
from bus.stores.sqlite.connection import BUSY_MILLISECONDS, open_reader, open_writer
from bus.stores.sqlite.failures import translating
from bus.stores.sqlite.gathering import Gathering

Result = TypeVar("Result")
Job = Callable[[apsw.Connection], Any]
_NAME: Final = "control.db"


class Control:
    """The file of unfinished work and documents; other processes may write documents to it at the same time."""

    def __init__(self, directory: Path, executor: Executor) -> None:
        self._executor = executor
        self._writer = open_writer(directory / _NAME, schema=sql.SCHEMA, version=sql.VERSION)
        self.reader = open_reader(directory / _NAME)
        self._jobs: Gathering[Job, Any] = Gathering(self._commit, limit=256)
        self.on_commit: Callable[[], None] = _nothing
        self.on_rollback: Callable[[], None] = _nothing

    @property
    def idle(self) -> bool:
        """Whether no job waits or runs, so that what is in memory is what is on disk."""
        return self._jobs.idle

    def read(self, query: str, bindings: tuple[Any, ...] = ()) -> list[Any]:
        """Return all rows of a short query over what is committed."""
        with translating(_NAME):
            return list(self.reader.execute(query, bindings))

    async def run(self, job: Callable[[apsw.Connection], Result]) -> Result:
        """Run a job in a transaction and return its result once that is durable.

        A ``BusError`` that the job raises before it changes anything is the caller's alone; every other error
        undoes the whole transaction.
        """
        result: Result = await self._jobs.add(job)
        return result

    async def close(self) -> None:
        """Commit the jobs that wait, and close the file."""
        await self._jobs.close()
        with translating(_NAME):
            self.reader.close()
            await asyncio.get_running_loop().run_in_executor(self._executor, self._writer.close)

    async def _commit(self, jobs: list[Job]) -> list[Any]:
        with translating(_NAME):
            await self._begin()
            try:
                results = [self._result_of(job) for job in jobs]
                await self._in_thread("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        self.on_commit()
        return results

    def _result_of(self, job: Job) -> Any:
        try:
            return job(self._writer)
        except BusError as error:
            return error

    async def _begin(self) -> None:
        """Take the write lock; while another process holds it, wait in the thread and not on the loop."""
        self._writer.set_busy_timeout(0)
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._writer.set_busy_timeout(BUSY_MILLISECONDS)
            await self._in_thread("BEGIN IMMEDIATE")

    async def _in_thread(self, statement: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._executor, self._writer.execute, statement)

    def _roll_back(self) -> None:
        with suppress(apsw.Error):  # the failure that led here is the one to tell
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        self.on_rollback()


def _nothing() -> None:
    """Do nothing on a commit or rollback."""
