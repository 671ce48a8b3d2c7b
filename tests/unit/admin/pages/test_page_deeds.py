"""Every request that changes something has a verb of its own in the audit log."""

from __future__ import annotations

import pytest

from admin.pages.parts.audit_actions import OTHER, deed_of
from tests.unit.admin.admin_world import World

PREFIX = "/api/v1/"


@pytest.mark.parametrize(
    ("method", "resource", "verb"),
    [
        ("POST", "resends", "resent"),
        ("POST", "resends/01/pause", "paused"),
        ("POST", "messages/01/edit", "edited and resent"),
        ("POST", "destinations/orders/subscriptions/mail/rotate-secret", "rotated the secret"),
        ("PUT", "destinations/orders", "set"),
        ("GET", "messages/01/body", "read"),
        ("PATCH", "destinations/orders", "changed"),
        ("LOCK", "destinations/orders", OTHER),
        ("POST", "something/new", OTHER),
    ],
)
def test_what_was_done_is_a_verb(method: str, resource: str, verb: str) -> None:
    assert deed_of(method, resource) == verb


def test_no_operation_is_without_one() -> None:
    operations = World().app.openapi()["paths"]
    paths = {path.removeprefix(PREFIX) for path, one in operations.items() if path.startswith(PREFIX) and "post" in one}
    assert "resends" in paths
    steered = {path.replace("{steering}", "rollback") for path in paths}
    assert not [path for path in steered if deed_of("POST", path) == OTHER]
