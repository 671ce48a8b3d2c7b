"""Every error of aiokafka means something to the bus; one that is new has to be thought about here."""

from __future__ import annotations

import ssl

import pytest
from aiokafka import errors as kafka

from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.transports.kafka.errors import TROUBLE, describe, translated, transport_error

CREDENTIALS = {
    "AuthenticationFailedError",
    "AuthenticationMethodNotSupported",
    "IllegalSaslStateError",
    "SaslAuthenticationFailed",
    "SecurityDisabled",
    "UnsupportedSaslMechanismError",
}
PERMISSION = {
    "ClusterAuthorizationFailedError",
    "GroupAuthorizationFailedError",
    "TopicAuthorizationFailedError",
    "TransactionalIdAuthorizationFailed",
}
SETTINGS = {
    "IncompatibleBrokerVersion",
    "InconsistentGroupProtocolError",
    "InvalidConfigurationError",
    "InvalidGroupIdError",
    "InvalidPartitionsError",
    "InvalidReplicationAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequestError",
    "InvalidSessionTimeoutError",
    "InvalidTopicError",
    "KafkaConfigurationError",
    "PolicyViolationError",
    "UnrecognizedBrokerVersion",
    "UnsupportedCodecError",
    "UnsupportedForMessageFormatError",
    "UnsupportedVersionError",
}
# The broker is unreachable, busy, moving, or new to it: what is accepted waits and is tried again.
NOT_NOW = {
    "BrokerNotAvailableError", "BrokerResponseError", "Cancelled", "CommitFailedError", "ConcurrentTransactions",
    "CorrelationIdError", "CorruptRecordException", "DuplicateSequenceNumber", "FetchSessionIdNotFound",
    "GroupCoordinatorNotAvailableError", "GroupIdNotFound", "GroupLoadInProgressError", "IllegalArgumentError",
    "IllegalGenerationError", "IllegalStateError", "InvalidCommitOffsetSizeError", "InvalidFetchRequestError",
    "InvalidFetchSessionEpoch", "InvalidProducerEpoch", "InvalidProducerIdMapping", "InvalidRequiredAcksError",
    "InvalidTimestampError", "InvalidTransactionTimeout", "InvalidTxnState", "KafkaConnectionError", "KafkaError",
    "KafkaProtocolError", "KafkaStorageError", "KafkaTimeoutError", "KafkaUnavailableError",
    "LeaderNotAvailableError", "ListenerNotFound", "LogDirNotFound", "MemberIdRequired", "MessageSizeTooLargeError",
    "MetadataEmptyBrokerList", "NoBrokersAvailable", "NoError", "NoOffsetForPartitionError", "NodeNotReadyError",
    "NonEmptyGroup", "NotControllerError", "NotCoordinatorForGroupError", "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError", "NotLeaderForPartitionError", "OffsetMetadataTooLargeError", "OffsetOutOfRangeError",
    "OperationNotAttempted", "OutOfOrderSequenceNumber", "ProducerClosed", "ProducerFenced", "QuotaViolationError",
    "ReassignmentInProgress", "RebalanceInProgressError", "RecordListTooLargeError", "RecordTooLargeError",
    "ReplicaNotAvailableError", "RequestTimedOutError", "StaleControllerEpochError", "StaleLeaderEpochCodeError",
    "StaleMetadata", "TooManyInFlightRequests", "TopicAlreadyExistsError", "TransactionCoordinatorFenced",
    "UnknownError", "UnknownMemberIdError", "UnknownProducerId", "UnknownTopicOrPartitionError",
}  # fmt: skip
# Of features that the bus does not use.
UNUSED = {
    "DelegationTokenAuthDisabled",
    "DelegationTokenAuthorizationFailed",
    "DelegationTokenExpired",
    "DelegationTokenNotFound",
    "DelegationTokenOwnerMismatch",
    "DelegationTokenRequestNotAllowed",
    "InvalidPrincipalType",
}
ALL = {
    found.__name__: found
    for found in vars(kafka).values()
    if isinstance(found, type) and issubclass(found, kafka.KafkaError)
}


def test_every_error_of_the_library_is_thought_of() -> None:
    groups = [CREDENTIALS, PERMISSION, SETTINGS, NOT_NOW, UNUSED]
    assert ALL.keys() == set().union(*groups)
    assert sum(map(len, groups)) == len(ALL), "one is in two groups"


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"BrokerResponseError"}))  # only a base of others
def test_an_error_of_the_library_is_one_of_the_bus(name: str) -> None:
    error = ALL[name]("it said no") if name != "OffsetOutOfRangeError" else ALL[name]({})
    assert isinstance(error, TROUBLE)
    found = transport_error(error, "asking")
    assert type(found) is (TransportRefused if name in CREDENTIALS | PERMISSION | SETTINGS else TransportUnavailable)
    assert str(found).startswith("kafka: asking: ")
    assert bool(found.hint) is not found.retriable


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), TransportUnavailable),
        (ConnectionRefusedError(111, "refused"), TransportUnavailable),
        (ssl.SSLCertVerificationError("self-signed"), TransportRefused),
        (ssl.SSLError("handshake"), TransportUnavailable),
        (NotImplementedError("too old"), TransportRefused),
    ],
)
def test_an_error_of_the_network_is_one_of_the_bus(error: Exception, expected: type[TransportError]) -> None:
    with pytest.raises(TransportError) as raised, translated("connecting"):
        raise error
    assert type(raised.value) is expected
    assert raised.value.__cause__ is error


def test_a_mistake_of_ours_is_not_an_error_of_the_network() -> None:
    with pytest.raises(ZeroDivisionError), translated("connecting"):
        1 / 0  # noqa: B018


def test_what_is_an_error_of_the_bus_already_stays_as_it_is() -> None:
    error = TransportRefused("no", hint="yes")
    assert transport_error(error, "connecting") is error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            kafka.KafkaConnectionError("Unable to bootstrap from [('10.0.0.7', 9092, <AddressFamily.AF_UNSPEC: 0>)]"),
            "no answer from 10.0.0.7:9092",
        ),
        (kafka.KafkaConnectionError("Connection at 10.0.0.7:9092 closed"), "Connection at 10.0.0.7:9092 closed"),
        (kafka.TopicAuthorizationFailedError("orders"), "topic authorization failed: orders"),
        (kafka.SaslAuthenticationFailed("no such user"), "sasl authentication failed: no such user"),
        (kafka.UnknownTopicOrPartitionError(), "unknown topic or partition"),
        (kafka.ProducerClosed(), "producer closed"),
        (kafka.NodeNotReadyError(), "node not ready"),
        (TimeoutError(), "no answer in time"),
    ],
)
def test_descriptions(error: Exception, text: str) -> None:
    assert str(describe(error)) == text


def test_a_rejection_is_more_exact_than_its_cause() -> None:
    error = kafka.AuthenticationFailedError("invalid credentials")
    error.__cause__ = ConnectionResetError()
    assert describe(error) == "authentication failed: invalid credentials"
