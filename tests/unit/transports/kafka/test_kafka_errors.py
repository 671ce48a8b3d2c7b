"""Errors of Kafka's client library as texts for people."""

from __future__ import annotations

import pytest
from aiokafka import errors as kafka

from bus.transports.kafka.errors import describe


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            kafka.KafkaConnectionError("Unable to bootstrap from [('10.0.0.7', 9092, <AddressFamily.AF_UNSPEC: 0>)]"),
            "no answer from 10.0.0.7:9092",
        ),
        (kafka.KafkaConnectionError("Connection at 10.0.0.7:9092 closed"), "Connection at 10.0.0.7:9092 closed"),
        (kafka.TopicAuthorizationFailedError("orders"), "orders"),
        (kafka.NodeNotReadyError(), "node not ready"),
        (TimeoutError(), "no answer in time"),
    ],
)
def test_descriptions(error: Exception, text: str) -> None:
    assert str(describe(error)) == text


def test_a_rejection_is_more_exact_than_its_cause() -> None:
    error = kafka.AuthenticationFailedError("invalid credentials")
    error.__cause__ = ConnectionResetError()
    assert describe(error) == "invalid credentials"
