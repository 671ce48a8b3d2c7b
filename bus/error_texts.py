"""Errors of the network and of files as texts for people: the peer, the phase and the limit, in plain words.

The texts of Python, OpenSSL and client libraries (``[Errno 111]``, ``_ssl.c:1006``, ``ReadTimeout``) never pass.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import socket
import traceback
from collections.abc import Iterator
from typing import Any, Final

from bus.errors import BusError
from bus.localized_text import N_, AnyText, LocalizedText, localized


class Phase(enum.StrEnum):
    """Phase of an exchange, which a time-out names."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    SEND = "send"
    WAIT = "wait"
    READ = "read"


_TIMED_OUT: Final = {
    Phase.DNS: N_("timed out after {seconds} s resolving {peer}"),
    Phase.CONNECT: N_("timed out after {seconds} s connecting to {peer}"),
    Phase.TLS: N_("timed out after {seconds} s in the TLS handshake with {peer}"),
    Phase.SEND: N_("timed out after {seconds} s sending the request"),
    Phase.WAIT: N_("timed out after {seconds} s waiting for the response"),
    Phase.READ: N_("timed out after {seconds} s reading the response"),
}
# By name, since the SDK does not load httpx until it sends: the phase, and which of a request's limits was reached.
_HTTPX_TIMEOUTS: Final = {
    "ConnectTimeout": (Phase.CONNECT, "connect"),
    "ReadTimeout": (Phase.WAIT, "read"),
    "WriteTimeout": (Phase.SEND, "write"),
}
_ERRNO: Final = {
    errno.ECONNREFUSED: N_("connection refused by {peer}"),
    errno.ECONNRESET: N_("connection reset by {peer}"),
    errno.EPIPE: N_("connection closed by {peer}"),
    errno.ECONNABORTED: N_("connection closed by {peer}"),
    errno.EHOSTUNREACH: N_("no route to {peer}"),
    errno.ENETUNREACH: N_("network of {peer} unreachable"),
    errno.ETIMEDOUT: N_("no answer from {peer}: the operating system's time-out was reached"),
}
_CLASS_ERRNO: Final = (
    (ConnectionRefusedError, errno.ECONNREFUSED),
    (ConnectionResetError, errno.ECONNRESET),
    (BrokenPipeError, errno.EPIPE),
    (ConnectionAbortedError, errno.ECONNABORTED),
)
_DNS: Final = {
    socket.EAI_NONAME: N_("DNS: {host} not found"),
    getattr(socket, "EAI_NODATA", socket.EAI_NONAME): N_("DNS: {host} not found"),
    socket.EAI_AGAIN: N_("DNS: no name server answered for {host}"),
}
_CERTIFICATE: Final = {  # OpenSSL's X509_V_ERR_*
    9: N_("TLS: certificate not valid yet"),
    10: N_("TLS: certificate expired"),
    18: N_("TLS: self-signed certificate"),
    19: N_("TLS: certificate of an unknown authority"),  # a self-signed authority at the end of the chain
    20: N_("TLS: certificate of an unknown authority"),
    21: N_("TLS: certificate of an unknown authority"),
    23: N_("TLS: certificate revoked"),
    62: N_("TLS: certificate not valid for {host}"),
    64: N_("TLS: certificate not valid for {host}"),
}
_REASONS: Final = {  # OpenSSL's, of handshakes and of files
    "WRONG_VERSION_NUMBER": N_("TLS: {peer} does not use TLS"),
    "HTTP_REQUEST": N_("TLS: {peer} does not use TLS"),
    "UNSUPPORTED_PROTOCOL": N_("TLS: no common protocol version with {peer}"),
    "TLSV1_ALERT_PROTOCOL_VERSION": N_("TLS: no common protocol version with {peer}"),
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": N_("TLS: {peer} requires a client certificate"),
    "NO_CERTIFICATE_OR_CRL_FOUND": N_("no certificate in the PEM file"),
    "PEM_LIB": N_("not a PEM file with a certificate and its key"),
    "KEY_VALUES_MISMATCH": N_("the private key is not the certificate's"),
    "TLSV1_ALERT_UNKNOWN_CA": N_("TLS: {peer} rejected the certificate: unknown authority"),
}
_RAISED_AGAIN: Final = ("httpx", "httpcore")
"""Libraries that raise errors again "from None", so that only the context has the cause; other contexts are not one."""
_SOMEONE: Final = localized("the peer")
_NUMBERED: Final = re.compile(r"(?:([^\s,;]*[\w\]]:\d+): ?)?\[Errno (-?\d+)\]((?: ?[^\s,;:()\[\]'\"]+)*)")
_OPENSSL: Final = re.compile(r" ?\(_ssl\.c:\d+\)|_ssl\.c:\d+: |\[(?:SSL|X509|SYS)(?:: \w+)?\] ?")
_ATTEMPTS: Final = re.compile(r"Multiple exceptions: .*\[Errno (\d+)\]")
"""The last number in the error of asyncio's for a name with several addresses."""
_CALLED: Final = re.compile(r"Connect call failed \('([^']+)', (\d+)")
"""The peer in an error of asyncio's."""
_CODE: Final = re.compile(r"\[Error \d+\] ")
_CLASS: Final = re.compile(r"\b(?:[a-z_]+\.)*([A-Z][A-Za-z]*(?:Error|Exception|Timeout)\b)(:? ?)")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def peer_name(host: str, port: int) -> str:
    """Return ``HOST:PORT``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def timed_out(phase: Phase, seconds: float, peer: str) -> LocalizedText:
    """Return the text of a time-out: the phase, its limit in seconds, and the peer where the phase has one."""
    return localized(_TIMED_OUT[phase], seconds=f"{round(seconds, 1):g}", peer=peer)


def closed_early(phase: Phase, peer: str) -> LocalizedText:
    """Return the text of a connection that the peer closed before the response was complete."""
    if phase is Phase.SEND:
        return localized("connection closed by {peer} while sending the request", peer=peer)
    if phase is Phase.READ:
        return localized("connection closed by {peer} while reading the response", peer=peer)
    return localized("connection closed by {peer} before the response", peer=peer)


def error_text(error: BaseException, peer: str = "") -> AnyText:
    """Return an error as a text for people, without class names, error numbers and places in libraries.

    An error of the bus has such a text already, which stays as it is.

    Parameters
    ----------
    error
        Of a socket, a file, TLS or a client library; the errors that caused it are searched for the most exact text.
    peer
        ``HOST:PORT``, or what else names the peer; an error of httpx has its own.
    """
    if isinstance(error, BusError):
        return error.said
    chain = list(_causes(error))
    known = peer or next(filter(None, map(_peer_of, chain)), "")
    for one in chain:
        if (text := _exact(one, known)) is not None:
            return text
    return own_text(error, known)


def own_text(error: BaseException, peer: str = "") -> AnyText:
    """Return the text of an error that is more exact than its causes, such as a rejection with its reason."""
    if isinstance(error, KeyError) and error.args:
        return localized("key {key} is missing", key=str(error.args[0]))
    name, text = type(error).__name__, _CODE.sub("", str(error))
    return plain_text("" if text == name else text.removeprefix(f"{name}: "), peer) or kind_text(error)


def plain_text(text: str, peer: str = "") -> str:
    """Return the text of a library without error numbers and places, and with class names as words; in one line."""
    text = _NUMBERED.sub(lambda found: _numbered(found, peer), _OPENSSL.sub("", text))
    return " ".join(_CLASS.sub(_named, _CODE.sub("", text)).split()).strip(" :")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; of several attempts the last one."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        following = cause.__cause__
        if following is None and type(cause).__module__.partition(".")[0] in _RAISED_AGAIN:
            following = cause.__context__
        cause = cause.exceptions[-1] if isinstance(cause, BaseExceptionGroup) else following


def _peer_of(error: BaseException) -> str:
    if called := _CALLED.search(str(error)):
        return peer_name(called[1], int(called[2]))
    request = _request_of(error)
    if request is None:
        return ""
    return peer_name(request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80))


def _request_of(error: BaseException) -> Any:
    """Return the request of an error of httpx, None for any other."""
    return getattr(error, "_request", None)


def _exact(error: BaseException, peer: str) -> AnyText | None:
    """Return the text of an error that needs no library's words; None if there is none."""
    text = str(error)
    if type(error).__name__ in _HTTPX_TIMEOUTS:
        return _httpx_timeout(error, peer)
    if "without sending" in text:
        return closed_early(Phase.READ if "complete" in text else Phase.WAIT, peer or str(_SOMEONE))
    return _of_system(error, peer) if isinstance(error, OSError) else None


def _httpx_timeout(error: BaseException, peer: str) -> LocalizedText | None:
    phase, limit = _HTTPX_TIMEOUTS[type(error).__name__]
    if any(map(_is_of_handshake, _causes(error))):
        phase = Phase.TLS
    request = _request_of(error)
    seconds = request.extensions.get("timeout", {}).get(limit) if request is not None else None
    return timed_out(phase, seconds, peer) if seconds is not None else None


def _of_system(error: OSError, peer: str) -> AnyText | None:
    import ssl  # noqa: PLC0415 - 10 ms, which the start of the SDK has no use for

    if isinstance(error, ssl.SSLError):
        return _of_tls(error, peer)
    if isinstance(error, socket.gaierror):
        return _of_dns(error, peer)
    number = error.errno or next((code for kind, code in _CLASS_ERRNO if isinstance(error, kind)), 0)
    if not number and (attempts := _ATTEMPTS.match(str(error))):
        number = int(attempts[1])
    if number in _ERRNO:
        return localized(_ERRNO[number], peer=peer or _SOMEONE)
    if number <= 0:
        return localized("no answer in time") if isinstance(error, TimeoutError) and not str(error) else None
    said = os.strerror(number)
    said = said[0].lower() + said[1:]
    return f"{said}: {error.filename}" if error.filename else said


def _of_dns(error: socket.gaierror, peer: str) -> AnyText:
    host = peer.rpartition(":")[0] or peer or str(_SOMEONE)
    if error.errno in _DNS:
        return localized(_DNS[error.errno], host=host)
    return localized("DNS: {host} not resolved: {why}", host=host, why=str(error.strerror or error.errno or error))


def _of_tls(error: Any, peer: str) -> AnyText:
    code = getattr(error, "verify_code", 0)
    host = peer.rpartition(":")[0].strip("[]") or str(_SOMEONE)
    if date := getattr(error, "not_after", ""):
        return localized("TLS: certificate expired on {date}", date=date)
    if code in _CERTIFICATE:
        return localized(_CERTIFICATE[code], host=host)
    if code:
        return localized("TLS: certificate not valid: {why}", why=str(error.verify_message))
    return _of_tls_without_certificate(error, peer or str(_SOMEONE))


def _of_tls_without_certificate(error: Any, peer: str) -> AnyText:
    reason = getattr(error, "reason", None) or ""
    if reason in _REASONS:
        return localized(_REASONS[reason], peer=peer)
    why = reason.replace("_", " ").lower() or plain_text(str(error)) or kind_text(error)
    if not _is_of_handshake(error):
        return localized("TLS: connection to {peer} failed: {why}", peer=peer, why=why)
    if not reason:
        return localized("TLS: {peer} closed the connection during the handshake", peer=peer)
    return localized("TLS: handshake with {peer} failed: {why}", peer=peer, why=why)


def _is_of_handshake(error: BaseException) -> bool:
    """Whether a function of a handshake raised an error; OpenSSL's own text does not say."""
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any("handshake" in name or name == "start_tls" for name in names)  # the latter is httpcore's


def _numbered(found: re.Match[str], peer: str) -> str:
    peer, number = found[1] or peer, int(found[2])
    if number < 0:
        return str(_of_dns(socket.gaierror(number, found[3].strip()), peer))
    return str(_of_system(OSError(number, ""), peer) or found[3].strip())


def _named(found: re.Match[str]) -> str:
    """Return a class name in a text as words, and nothing for one that is too general to say more, as "value"."""
    words = _words(found[1])
    return f"{words}{found[2]}" if " " in words else ""


def kind_text(error: BaseException) -> str:
    """Return the class of an error as words: ``ConnectionClosedError`` as "connection closed"."""
    return _words(type(error).__name__)


def _words(name: str) -> str:
    words = _HUMP.sub(" ", name).lower().split()
    return " ".join(words[:-1] if len(words) > 1 and words[-1] in ("error", "exception") else words)
