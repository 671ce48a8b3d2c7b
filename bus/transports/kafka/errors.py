"""Errors of the bus for those of Kafka and its client library."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiokafka import errors as kafka

from bus.error_texts import error_text, kind_text, own_text, peer_name
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import AnyText, localized

CREDENTIALS: Final = (
    kafka.AuthenticationFailedError,
    kafka.AuthenticationMethodNotSupported,
    kafka.IllegalSaslStateError,
    kafka.SaslAuthenticationFailed,
    kafka.SecurityDisabled,
    kafka.UnsupportedSaslMechanismError,
    ssl.SSLCertVerificationError,
)
PERMISSION: Final = (
    kafka.ClusterAuthorizationFailedError,
    kafka.GroupAuthorizationFailedError,
    kafka.TopicAuthorizationFailedError,
    kafka.TransactionalIdAuthorizationFailed,
)
SETTINGS: Final = (
    kafka.IncompatibleBrokerVersion,
    kafka.InconsistentGroupProtocolError,
    kafka.InvalidConfigurationError,
    kafka.InvalidGroupIdError,
    kafka.InvalidPartitionsError,
    kafka.InvalidReplicationAssignmentError,
    kafka.InvalidReplicationFactorError,
    kafka.InvalidRequestError,
    kafka.InvalidSessionTimeoutError,
    kafka.InvalidTopicError,
    kafka.KafkaConfigurationError,
    kafka.PolicyViolationError,
    kafka.UnrecognizedBrokerVersion,
    kafka.UnsupportedCodecError,
    kafka.UnsupportedForMessageFormatError,
    kafka.UnsupportedVersionError,
    NotImplementedError,
)
TROUBLE: Final = (kafka.KafkaError, OSError, NotImplementedError)
"""Errors of the client library when the broker is unreachable, refuses, or uses another version."""
_NEEDED: Final = (
    "Create, Describe, DescribeConfigs, AlterConfigs, Read and Write on its topics, "
    "Read, Describe and Delete on its groups"
)
_ADDRESS: Final = re.compile(r"\('([^']+)', (\d+), <AddressFamily")
"""A server in the text that none of those given was reached."""
_HINTS: Final = (
    (CREDENTIALS, localized("check the user name, the password, the SASL mechanism and the file of authorities")),
    (PERMISSION, localized("grant the bus's user {rights}", rights=_NEEDED)),
    (SETTINGS, localized("change the setting named, here or at the broker")),
)


def transport_error(error: BaseException, doing: AnyText) -> TransportError:
    """Return the error of the bus for an error of the client library.

    Parameters
    ----------
    error
        One of ``TROUBLE``; a time-out is among them.
    doing
        What was tried, to begin the text with.
    """
    if isinstance(error, TransportError):
        return error
    said = localized("kafka: {doing}: {error}", doing=doing, error=describe(error))
    for classes, hint in _HINTS:
        if isinstance(error, classes):
            return TransportRefused(said, hint=hint)
    return TransportUnavailable(said)


def describe(error: BaseException) -> AnyText:
    """Return an error of the client library as a text for people; of an answer of a broker its kind comes first."""
    if found := _ADDRESS.findall(str(error)):
        return localized("no answer from {peers}", peers=", ".join(peer_name(host, int(port)) for host, port in found))
    is_rejection = isinstance(error, kafka.KafkaError) and isinstance(error, (*CREDENTIALS, *PERMISSION, *SETTINGS))
    if not is_rejection and not isinstance(error, kafka.BrokerResponseError):
        return error_text(error)
    kind, said = kind_text(error), own_text(error)
    return kind if said == kind else f"{kind}: {said}"


@contextmanager
def translated(doing: AnyText) -> Iterator[None]:
    """Raise errors of the client library as errors of the bus.

    Raises
    ------
    TransportUnavailable
        The broker did not answer, or not now.
    TransportRefused
        The broker refused permanently.
    """
    try:
        yield
    except TROUBLE as error:
        raise transport_error(error, doing) from error
