"""A copy of a tree to be harmed, and pytest run in it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]

OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "-m", "not proof")
# It looks for the old text of every fault, and would find each.
_LEFT_OUT: Final = "--ignore=tests/unit/harness/test_mutants.py"
_SUMMARY: Final = ("FAILED tests/", "ERROR tests/")  # a log has lines that begin with the word alone
_TEARDOWN_SECONDS: Final = 30.0


class Done(NamedTuple):
    """What a run of pytest said; ``code`` is None when it was broken off at its deadline."""

    code: int | None
    output: str

    @property
    def failed(self) -> list[str]:
        """The tests that failed, by their ids."""
        lines = (line for line in self.output.splitlines() if line.startswith(_SUMMARY))
        return [line.partition(" ")[2].split(" - ")[0] for line in lines]


class Copy:
    """A place for one copy at a time of a tree, which stays the same, so that unchanged files are compiled once."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self._tree = tree
        self._compiled = folder / "compiled"
        self.path = folder / "tree"

    def renew(self) -> None:
        """Make the copy anew: every file that git knows, as it is now."""
        shutil.rmtree(self.path, ignore_errors=True)
        named = subprocess.run(["git", "ls-files", "-z"], cwd=self._tree, capture_output=True, text=True, check=True)
        for name in filter(None, named.stdout.split("\0")):
            source, target = self._tree / name, self.path / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def pytest(self, paths: Sequence[str], *, within: float, most_failures: int = 1) -> Done:
        """Run the tests of some paths for at most so many seconds, until so many have failed; 0 for all."""
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *OPTIONS, f"--maxfail={most_failures}", _LEFT_OUT, *paths],
            cwd=self.path,
            env=self._env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=max(within, 0))
        except subprocess.TimeoutExpired:
            return Done(None, _broken_off(process))
        except BaseException:
            _broken_off(process)
            raise
        return Done(process.returncode, output)

    def _env(self) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return env | {
            "PYTHONPATH": str(self.path),
            "PYTHONPYCACHEPREFIX": str(self._compiled),
            "BUS_TEST_CACHE": env.get("BUS_TEST_CACHE") or str(self._tree / ".cache" / "servers"),
        }


@contextmanager
def copy_of(tree: Path) -> Iterator[Copy]:
    """Give a place for copies of a tree; it goes with what is in it."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        yield Copy(tree, Path(folder))


def _broken_off(process: subprocess.Popen[str]) -> str:
    """End a run as Ctrl-C does, so that it stops the servers that it started, and return what it wrote."""
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=_TEARDOWN_SECONDS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        for child in started:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        return process.communicate()[0]
