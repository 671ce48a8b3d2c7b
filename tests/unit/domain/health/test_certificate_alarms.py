"""Certificates of subscribers: from when on their end is an alarm, and whose."""

from __future__ import annotations

import pytest

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Facts
from bus.domain.health.vitals import CertificateFigures
from bus.domain.subscription import Subscription
from bus.domain.times import DAY, HOUR

ROLES = ("receiver", "dispatcher", "compensator")
NOW = 100 * DAY
SHOP = Subscription(destination="orders", name="shop", url="https://Shop.example/hook")


def found(*left: int, host: str = "shop.example:443", of: Subscription = SHOP, active: str = "") -> list[Alarm]:
    certificates = [CertificateFigures(host, NOW + one) for one in left]
    return alarms(Facts(roles=ROLES, now=NOW, certificates=certificates, subscriptions=[of]), active=[active])


@pytest.mark.parametrize(
    ("left", "severity", "what"),
    [
        (14 * DAY, None, ""),
        (14 * DAY - 1, Severity.WARNING, "the certificate of shop.example:443 ends in 13d: orders/shop"),
        (2 * DAY + 1, Severity.WARNING, "the certificate of shop.example:443 ends in 2d: orders/shop"),
        (2 * DAY, Severity.CRITICAL, "the certificate of shop.example:443 ends in 2d: orders/shop"),
        (-HOUR, Severity.CRITICAL, "the certificate of shop.example:443 has ended: orders/shop"),
    ],
)
def test_how_long_it_is_good_says_how_bad_it_is(left: int, severity: Severity | None, what: str) -> None:
    told = [(one.severity, str(one.what)) for one in found(left)]
    assert told == ([(severity, what)] if severity is not None else [])


def test_it_is_of_the_host_and_told_whatever_else_is_wrong_there() -> None:
    (one,) = found(DAY)
    assert (one.subject, one.cause) == ("shop.example:443", "certificate:shop.example:443")
    assert one.link == "destinations/orders/subscriptions/shop"


def test_one_process_that_has_seen_the_new_one_is_enough() -> None:
    assert found(DAY, 90 * DAY) == []
    assert found(90 * DAY, DAY) == []


def test_it_is_over_once_it_is_renewed() -> None:
    assert found(16 * DAY, active="certificate:shop.example:443")
    assert found(18 * DAY, active="certificate:shop.example:443") == []


@pytest.mark.parametrize(
    "url", ["http://shop.example:443/", "https://shop.example:8443/", "https://other/", "https://[x"]
)
def test_what_no_subscription_uses_is_none(url: str) -> None:
    assert found(DAY, of=Subscription(destination="orders", name="shop", url=url)) == []
