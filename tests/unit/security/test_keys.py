from __future__ import annotations

import itertools

import pytest

from bus.security.keys import (
    Action,
    Role,
    allows,
    hash_key,
    new_key,
    split_key,
    verify_key,
)

EXPECTED = {
    Role.PRODUCER: {Action.INGEST},
    Role.VIEWER: {Action.READ},
    Role.OPERATOR: {Action.READ, Action.RESEND, Action.PAUSE},
    Role.ADMIN: set(Action),
}


def test_keys():
    key_id, text = new_key()
    assert text.startswith(f"bus_{key_id}_")
    assert split_key(text) == (key_id, text.removeprefix(f"bus_{key_id}_"))
    assert verify_key(text, hash_key(text))
    assert not verify_key(text + "x", hash_key(text))
    assert not verify_key(text, "")
    assert not verify_key("ключ", "ключ")
    assert text not in hash_key(text)


def test_keys_differ_and_always_split():
    keys = [new_key() for _ in range(500)]
    assert len({text for _, text in keys}) == 500
    assert all(split_key(text) for _, text in keys)


@pytest.mark.parametrize("text", ["", "bus_", "bus_1_x", "sk_0123456789ab_" + "a" * 43, "bus_0123456789AB_" + "a" * 43])
def test_not_keys(text):
    assert split_key(text) is None
    assert split_key(new_key()[1] + "\n") is None


@pytest.mark.parametrize(("role", "action"), list(itertools.product(Role, Action)))
def test_roles(role, action):
    for destination in ("orders", None):
        assert allows([role], (), action, destination) is (action in EXPECTED[role])


@pytest.mark.parametrize("role", [Role.PRODUCER, Role.VIEWER, Role.OPERATOR])
def test_destinations_limit_every_role_but_admin(role):
    for action in EXPECTED[role]:
        assert allows([role], ["orders"], action, "orders")
        assert not allows([role], ["orders"], action, "payments")
        assert not allows([role], ["orders"], action, None)
        assert allows([role, Role.ADMIN], ["orders"], action, "payments")


def test_roles_add_up_and_unknown_ones_do_not():
    assert allows(["producer", "viewer"], (), "read", "orders")
    assert allows(["producer", "viewer"], (), "ingest", "orders")
    assert not allows(["producer", "viewer"], (), "pause", "orders")
    assert not allows([], (), "read", "orders")
    assert not allows(["root"], (), "read", "orders")
    assert not allows(["admin"], (), "fly", "orders")
