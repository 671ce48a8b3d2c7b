"""Names of topics and groups: reversible, distinct where Kafka would confuse them, and what it allows."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import InvalidDestination
from bus.transports.kafka.names import LONGEST_TOPIC, check_code, code_of, topic_of

LETTERS = string.ascii_letters + string.digits
codes = st.builds(str.__add__, st.sampled_from(LETTERS + "_"), st.text(LETTERS + "._-", max_size=127))
prefixes = st.text(LETTERS + ".-", max_size=64)


@given(codes, prefixes)
def test_a_topic_is_one_of_kafkas_and_leads_back(code: str, prefix: str) -> None:
    topic = topic_of(code, prefix)
    assert re.fullmatch(r"[a-zA-Z0-9._-]+", topic)
    assert code_of(topic, prefix) == code


@given(codes, codes)
def test_two_destinations_never_have_topics_that_collide(one: str, other: str) -> None:
    assert (metric(topic_of(one)) == metric(topic_of(other))) is (one == other)


@pytest.mark.parametrize("topic", ["a_b", "a-b", "-", "a-", "__consumer_offsets"])
def test_topics_of_others_lead_nowhere(topic: str) -> None:
    assert code_of(topic) is None


def test_topics_without_our_prefix_lead_nowhere() -> None:
    assert code_of("orders", "bus.") is None


@given(codes, prefixes)
def test_a_code_is_refused_when_and_only_when_its_topic_is_too_long(code: str, prefix: str) -> None:
    if len(topic_of(code, prefix)) <= LONGEST_TOPIC:
        assert check_code(code, prefix) == topic_of(code, prefix)
    else:
        with pytest.raises(InvalidDestination, match="takes 249") as refused:
            check_code(code, prefix)
        assert refused.value.field == "code"


def metric(topic: str) -> str:
    """Return the name that Kafka gives a topic's metrics, in which two topics must differ."""
    return topic.replace(".", "_")
