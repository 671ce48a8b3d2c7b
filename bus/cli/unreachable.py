"""Why a server could not be reached, in plain words."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

_CERTIFICATES: Final = {
    10: "TLS: certificate expired",
    18: "TLS: self-signed certificate",
    19: "TLS: self-signed certificate in the chain",
    62: "TLS: certificate is for another host",
}


def why_unreachable(error: Exception, url: str, seconds: float) -> str:
    """Return the reason for an error of the HTTP client.

    Parameters
    ----------
    error
        An error of httpx.
    url
        The URL that was called.
    seconds
        How long a response was waited for.
    """
    import httpx  # noqa: PLC0415 - `bus --help` does without

    place = _place(url)
    for cause in _causes(error):
        if reason := _of_system(cause, place):
            return reason
    if isinstance(error, httpx.ConnectTimeout):
        return f"timed out connecting to {place}"
    if isinstance(error, httpx.TimeoutException):
        return f"timed out after {seconds:g} s waiting for the response"
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
        return f"{place} closed the connection without a response"
    return str(error) or type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_system(cause: BaseException, place: str) -> str:
    """Return the reason if it is one of the operating system or of TLS, else an empty text."""
    host = place.rpartition(":")[0]
    match cause:
        case ssl.SSLCertVerificationError():
            reason = _CERTIFICATES.get(cause.verify_code, "TLS: certificate not trusted")
        case ssl.SSLError():
            reason = f"TLS: handshake with {place} failed; does it serve https?"
        case socket.gaierror():
            is_unknown = cause.errno == socket.EAI_NONAME
            reason = f"DNS: {host} not found" if is_unknown else f"DNS: lookup of {host} failed"
        case ConnectionRefusedError():
            reason = f"connection refused by {place}"
        case ConnectionResetError() | BrokenPipeError():
            reason = f"{place} closed the connection without a response"
        case OSError(strerror=str(said)) if not isinstance(cause, TimeoutError):
            reason = f"{place}: {said.lower()}"
        case _:
            reason = ""
    return reason


def _place(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
