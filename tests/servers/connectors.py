"""Spark's connectors to Kafka, MongoDB and object stores, copied as ``bus pipeline connectors`` does."""

from __future__ import annotations

from pathlib import Path

from bus.errors import ConfigurationError
from pipeline.connectors import install as copy
from tests.servers.cache import MAVEN, InstallFailed, cache_dir, install_once

VERSION = "4.0.0, 10.5.0 and 2.29.52"
_FOLDER = "connectors-4.0.0-10.5.0-2.29.52"


def find() -> Path | None:
    """Return the folder of the jars."""
    folder = cache_dir() / _FOLDER / "jars"
    return folder if folder.is_dir() else None


def install() -> Path:
    """Have Maven copy them."""
    return install_once(_FOLDER, _copy, about="from Maven") / "jars"


def _copy(target: Path) -> None:
    try:
        with MAVEN:
            copy(target / "jars")
    except ConfigurationError as error:
        raise InstallFailed(str(error)) from error
