"""Until when the certificates of subscribers are good, as their last handshakes showed."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from bus.domain.health.vitals import CertificateFigures
from bus.domain.times import DAY

_MOST: Final = 1000
_TOLD: Final = 50
_SOON: Final = 30 * DAY
_FORGOTTEN: Final = 7 * DAY


class Certificates:
    """The newest certificate of each host and port; of too many, the one that was seen longest ago is forgotten.

    Only of handshakes that were verified: what is expired is not spoken with.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def note(self, host: str, port: int, certificate: Mapping[str, object], now: int) -> None:
        """Take in a certificate, as `ssl.SSLSocket.getpeercert` tells of it; ``now`` in milliseconds."""
        until = certificate.get("notAfter")
        if not isinstance(until, str):
            return
        try:
            not_after = round(ssl.cert_time_to_seconds(until) * 1000)
        except ValueError:
            return
        name = f"{host}:{port}"
        self._seen.pop(name, None)
        self._seen[name] = (not_after, now)
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]

    def told(self, now: int) -> list[CertificateFigures]:
        """Return those that end within a month, the first of them first; not one that was not seen for a week."""
        self._seen = {name: found for name, found in self._seen.items() if now - found[1] < _FORGOTTEN}
        ending = [CertificateFigures(name, until) for name, (until, _) in self._seen.items() if until - now < _SOON]
        return sorted(ending, key=lambda one: one.not_after)[:_TOLD]
