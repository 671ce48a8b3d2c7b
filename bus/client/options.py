"""The options of a `Bus`, validated once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from bus.clock import SystemClock
from bus.domain.message import DEFAULT_MAX_BYTES
from bus.errors import ConfigurationError
from bus.network.names import is_http_url
from bus.ports.spool import NewRecord

if TYPE_CHECKING:
    import httpx

REQUEST_BYTES: Final = 16 * 2**20
"""What a receiver takes in one request."""
REQUEST_LINES: Final = 1000
LARGEST_BODY: Final = (REQUEST_BYTES - 2**18) * 3 // 4
"""A body that as base64, with its headers, is still one request."""


_SECONDS: Final = ("seconds, a number", (int, float))
_KINDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "url": ("str", (str,)),
    "api_key": ("str or None", (str, type(None))),
    **dict.fromkeys(("max_bytes", "spool_limit", "disk_reserve"), ("bytes, an int", (int,))),
    **dict.fromkeys(("timeout", "fallback_timeout", "backoff_first", "backoff_longest", "sweep_seconds"), _SECONDS),
}


class WallAndMonotonic(Protocol):
    """The part of `bus.ports.clock.Clock` that the SDK reads; its threads wait on conditions, never on the clock."""

    def now(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...


class PreparedMessage(NamedTuple):
    """A message that can be stored; ``bytes`` is the length of its body."""

    id: str
    record: NewRecord
    destination: str
    bytes: int
    biz_id: str
    source: str
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a `Bus` is set up; `bus.client.Bus` describes the fields.

    Raises
    ------
    ConfigurationError
        A value is impossible; nothing was started.
    TypeError
        One is of another type.
    """

    url: str
    api_key: str | None = None
    root: Path = Path("spool")
    source: str = ""
    max_bytes: int = DEFAULT_MAX_BYTES
    spool_limit: int = 4 << 30
    disk_reserve: int = 64 << 20
    timeout: float = 30.0
    fallback_timeout: float = 2.0
    backoff_first: float = 0.25
    backoff_longest: float = 30.0
    sweep_seconds: float = 15.0
    events: bool = True
    clock: WallAndMonotonic = field(default_factory=SystemClock)
    random: Callable[[], float] = random.random
    transport: httpx.BaseTransport | None = None

    def __post_init__(self) -> None:
        for name, (wanted, kinds) in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise TypeError(f"{name}: expected {wanted}, got {type(value).__name__}")
        if not is_http_url(self.url):
            raise ConfigurationError(
                f"url {self.url!r} is not the http or https address of a receiver",
                hint="such as http://127.0.0.1:8700",
            )
        if not 0 < self.max_bytes <= LARGEST_BODY:
            raise ConfigurationError(f"max_bytes {self.max_bytes} is not between 1 and {LARGEST_BODY}")
        if self.timeout <= 0 or self.sweep_seconds <= 0:
            raise ConfigurationError("timeout and sweep_seconds are seconds above 0")
        if not 0 <= self.fallback_timeout <= threading.TIMEOUT_MAX:
            raise ConfigurationError("fallback_timeout is seconds; 0 turns the fallback off")
