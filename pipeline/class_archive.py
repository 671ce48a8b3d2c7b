"""Spark's classes, which Java keeps linked in a file, and maps instead of loading them from jars once more (JEP 350).

Most of the time of a small command is Java reading, checking and linking some twenty thousand classes. Java refuses an
archive of another Java, of other jars or of other settings by itself, and then loads its classes as ever.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import string
from pathlib import Path
from typing import Final

import pyspark

_FOLDER: Final = Path("pier", "java")
_SPLITTING: Final = frozenset(string.whitespace + "\"'\\")


def archive_file() -> Path | None:
    """Return the path of the class archive of this machine's Java and Spark; None where there can be none.

    Then Java, Spark or a home is missing, or a name has what Spark splits options at.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")
    try:
        of = [(path, path.stat().st_mtime_ns) for path in (Path(java or "").resolve(strict=True), jars)]
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except (OSError, RuntimeError):
        return None
    file = caches / _FOLDER / f"{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.jsa"
    return None if java is None or set(str(file)) & _SPLITTING else file


def mapping_options() -> list[str]:
    """Return the options by which Java maps the archive; none if another user may have written it, or it is missing."""
    file = archive_file()
    if file is None or not (_is_ours(file) and _is_ours(file.parent)):
        return []
    # Java logs on standard output, which is the command's, if it refuses an archive.
    return [f"-XX:SharedArchiveFile={file}", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off", "-Xlog:class+path*=off"]


def writing_options(file: Path) -> list[str]:
    """Return the options by which Java writes an archive as it ends, and says on standard error what hinders it."""
    return [
        f"-XX:ArchiveClassesAtExit={file}",
        "-XX:+DisplayVMOutputToStderr",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
    ]


def _is_ours(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
