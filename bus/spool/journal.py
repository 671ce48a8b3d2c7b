"""Several spools in one file, so that what they gather at the same time shares one commit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bus.spool.aio import AsyncSpool
from bus.spool.driver import Driver
from bus.spool.options import Options


class Journal:
    """One spool file with a section for each name of ``Options.sections``; make it with `open`.

    Attributes
    ----------
    sections
        Each with streams, consumers and a limit of its own, to be used as a spool. Closing one closes all.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        found = driver.engine.cursors.sections
        self.sections: Mapping[str, AsyncSpool] = {name: AsyncSpool(driver, section) for name, section in found.items()}

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._driver.is_closed

    @classmethod
    async def open(cls, directory: Path, options: Options) -> Self:
        """Open or make the file; raises as ``AsyncSpool.open`` does."""
        return cls(await Driver.open(directory, options))

    async def close(self) -> None:
        """Commit what is pending and give up the directory. Waiting callers end with SpoolClosed."""
        await self._driver.close()
