"""Verification of subscribers over https."""

from __future__ import annotations

import ssl
from pathlib import Path

from bus.network.certificates import with_expiry_date


def client_context(
    *, authorities: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return a context that verifies certificates and host names.

    Parameters
    ----------
    authorities
        PEM file of the authorities to trust; None for the system's.
    certificate, key
        PEM files of our own certificate chain and its key, for subscribers that ask for one.

    Raises
    ------
    OSError
        A file cannot be read or is not PEM.
    """
    context = with_expiry_date(ssl.create_default_context(cafile=authorities))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    return context
