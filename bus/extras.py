"""Libraries that only some installations have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bus.errors import ConfigurationError


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Say which extra is missing when what is imported here is not installed.

    Raises
    ------
    ConfigurationError
        A library of the extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{error.name} is not installed; the settings need the {name} extra",
            hint=f'pip install "pier-bus[server,{name}]"',
        ) from error
