"""The cache of installed servers: each is there whole or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHOWN_LINES = 20
_APT = threading.Lock()  # what apt-get holds, a second one does not wait for
MAVEN = threading.Lock()  # two of them at once may write the same file of their repository


class InstallFailed(RuntimeError):
    """An installation step did not work; the text says which and what it printed."""


def cache_dir() -> Path:
    """Return the folder of everything installed: ``BUS_TEST_CACHE``, or ``.cache/servers`` of the repository."""
    return Path(os.environ.get("BUS_TEST_CACHE") or ROOT / ".cache" / "servers")


def install_once(name: str, build: Callable[[Path], None], *, about: str) -> Path:
    """Return the folder ``name`` of the cache, built first if it is not there.

    ``build`` fills a temporary folder, which is renamed when it is complete; runs at the same time build once.
    """
    target = cache_dir() / name
    if target.is_dir():
        return target
    cache_dir().mkdir(parents=True, exist_ok=True)
    with _locked(name):
        if not target.is_dir():
            _remove_leftovers(name)
            _build(name, target, build, about)
    return target


def run(
    argv: Sequence[str], *, cwd: Path | None = None, env: dict[str, str] | None = None, given: str | None = None
) -> str:
    """Run one step, with what is given as its standard input, and return its standard output.

    Raises
    ------
    InstallFailed
        The program is missing or its exit code is not 0.
    """
    try:
        done = subprocess.run(
            argv, cwd=cwd, env={**os.environ, **(env or {})}, input=given, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise InstallFailed(f"{argv[0]} is needed and not on the PATH") from None
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-SHOWN_LINES:])
        raise InstallFailed(f"{' '.join(argv)}: exit code {done.returncode}\n{tail}")
    return done.stdout


def apt_get(*arguments: str, cwd: Path | None = None) -> None:
    """Run apt-get, one at a time; a fresh machine does not know its packages yet, and is told of them first.

    Raises
    ------
    InstallFailed
        It did not work with fresh lists of packages either.
    """
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with _APT:
        try:
            run(["apt-get", *arguments], cwd=cwd, env=env)
        except InstallFailed:
            run(["apt-get", "update", "--quiet"], env=env)
            run(["apt-get", *arguments], cwd=cwd, env=env)


def unpack_packages(into: Path, *names: str) -> None:
    """Download packages of Debian and unpack them below a folder, without installing any; raises ``InstallFailed``."""
    downloads = into / "downloads"
    downloads.mkdir(parents=True)
    apt_get("download", "--quiet", *names, cwd=downloads)
    for package in downloads.glob("*.deb"):
        run(["dpkg-deb", "-x", str(package), str(into)])
    shutil.rmtree(downloads)


def say(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)


def _build(name: str, target: Path, build: Callable[[Path], None], about: str) -> None:
    say(f"installing {name}: {about} ...")
    started = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=cache_dir()))
    try:
        build(work)
        work.chmod(0o755)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    say(f"installed {name} in {time.monotonic() - started:.0f} s")


@contextmanager
def _locked(name: str) -> Iterator[None]:
    with (cache_dir() / f".{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that installs {name} ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers(name: str) -> None:
    """Remove what a killed installation left; nobody else builds while the lock is held."""
    for left in cache_dir().glob(f".{name}.*"):
        if left.is_dir():
            shutil.rmtree(left)
