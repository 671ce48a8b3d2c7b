"""The address of the management plugin, from the settings."""

from __future__ import annotations

import pytest

from bus.bootstrap import open_health
from bus.errors import ConfigurationError
from bus.settings import Settings
from bus.transports.rabbitmq import parse_cluster
from bus.transports.rabbitmq.management import parse_management

CLUSTER = parse_cluster("amqp://bus:s%40crit@rabbit-1,[::1]:5673/pier", "rabbitmq_primary")
TLS = parse_cluster("amqps://bus:x@rabbit-1/pier?cafile=ca.pem", "rabbitmq_primary")


def test_it_is_taken_from_the_cluster() -> None:
    found = parse_management("auto", CLUSTER, "m")
    assert found.bases == ("http://rabbit-1:15672", "http://[::1]:15672")
    assert (found.user, found.password, found.vhost) == ("bus", "s@crit", "pier")
    found = parse_management(" auto ", TLS, "m")
    assert (found.bases, found.options) == (("https://rabbit-1:15671",), {"cafile": "ca.pem"})


def test_it_is_somewhere_else_with_a_login_of_its_own_or_without() -> None:
    found = parse_management("https://watch:a%3Ab@m1:443,m2/rabbit/", CLUSTER, "m")
    assert found.bases == ("https://m1:443/rabbit", "https://m2/rabbit")
    assert (found.user, found.password, found.vhost) == ("watch", "a:b", "pier")
    assert parse_management("http://m1", CLUSTER, "m")[1:3] == ("bus", "s@crit")


@pytest.mark.parametrize(
    "text", ["m1:15672", "amqp://m1", "http://", "http://a b", "http://u:secret@m1?x=1", "http://:1"]
)
def test_anything_else_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"rabbitmq_management\.primary is not of the form") as refused:
        parse_management(text, CLUSTER, "rabbitmq_management.primary")
    assert "secret" not in str(refused.value)


def test_only_clusters_that_are_there_have_one() -> None:
    settings = Settings(rabbitmq_primary="amqp://h", rabbitmq_management={"primary": "auto", "backup": ""})
    assert [one.cluster for one in open_health(settings)] == ["rabbitmq-primary"]
    assert open_health(Settings(rabbitmq_primary="amqp://h")) == []
    with pytest.raises(ConfigurationError, match=r"rabbitmq_management\.backup is set and rabbitmq_backup is not"):
        open_health(Settings(rabbitmq_primary="amqp://h", rabbitmq_management={"backup": "auto"}))
