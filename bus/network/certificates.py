"""TLS contexts whose error for an expired certificate has the date on which it expired."""

from __future__ import annotations

import re
import ssl
from typing import Any, Final

_EXPIRED: Final = 10  # OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED
_DER: Final = 2
# In DER the validity is a sequence of two times, UTCTime or GeneralizedTime; the second one is the end.
_VALIDITY: Final = re.compile(
    rb"\x30[\x1e\x20\x22](?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d(\d{6})\d{6}|\x18\x0f(\d{8})\d{6})Z"
)


class CertificateExpired(ssl.SSLCertVerificationError):
    """The peer's certificate has expired; ``not_after`` is the date (``2026-11-29``)."""

    not_after: str


class _DatedObject(ssl.SSLObject):
    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            _raise_dated(error, self)


class _DatedSocket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except ssl.SSLCertVerificationError as error:
            _raise_dated(error, self)


def with_expiry_date(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context raise `CertificateExpired` for the certificate that has expired; return the context."""
    context.sslobject_class = _DatedObject
    context.sslsocket_class = _DatedSocket
    return context


def end_of_validity(certificate: bytes) -> str:
    """Return the date on which a certificate in DER expires; empty if it has none."""
    found = _VALIDITY.search(certificate)
    if found is None:
        return ""
    # UTCTime has two digits of the year: RFC 5280 takes 50 to 99 as 1950 to 1999.
    text = (found[2] or (b"19" if found[1] >= b"5" else b"20") + found[1]).decode()
    return f"{text[:4]}-{text[4:6]}-{text[6:]}"


def _raise_dated(error: ssl.SSLCertVerificationError, secured: Any) -> None:
    # Python 3.13 has a public way to the chain of a handshake that failed.
    chain = secured._sslobj.get_unverified_chain()  # noqa: SLF001
    dates = sorted(filter(None, (end_of_validity(one.public_bytes(_DER)) for one in chain or ())))
    if error.verify_code != _EXPIRED or not dates:
        raise error
    dated = CertificateExpired(*error.args)
    dated.not_after = dates[0]
    dated.verify_code, dated.verify_message = error.verify_code, error.verify_message
    raise dated from error
