"""The options of an agent, validated once."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from bus.domain.message import DEFAULT_MAX_BYTES
from bus.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """How an agent is set up.

    Attributes
    ----------
    url, api_key, spool, max_bytes
        As `bus.Bus` has them: the receiver, the agent's own key, where spool directories are made, the largest message.
    source
        The source of messages that name none, and the name of this agent's queue.
    host, port
        Where it is called by TCP; port 0 for any that is free.
    socket
        The file of a Unix socket beside that; None for none.

    Raises
    ------
    ConfigurationError
        Others than this machine could call it, and there is no key that they would have to show.
    """

    url: str
    api_key: str | None
    spool: Path
    source: str
    host: str
    port: int
    socket: Path | None = None
    max_bytes: int = DEFAULT_MAX_BYTES

    def __post_init__(self) -> None:
        if not self.is_loopback and not self.api_key:
            raise ConfigurationError(
                f"{self.host} is reached from other machines, and this agent has no key that they would have to show",
                hint="give it one with --api-key: callers show the same; or leave --host out",
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it by TCP."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
