"""Passwords rest as argon2id, and look the same however they were typed."""

from __future__ import annotations

import pytest

from bus.security.passwords import check_password, hash_password, new_password, verify_password


def test_a_password_rests_hashed_and_is_recognized() -> None:
    stored = hash_password("pässword and more")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert stored != hash_password("pässword and more")
    assert verify_password("pässword and more", stored)
    assert verify_password("pa\u0308ssword and more", stored)
    assert not verify_password("password and more", stored)
    assert not verify_password("\ud800", stored)


@pytest.mark.parametrize(
    "stored", [None, "", "plain", "$argon2id$v=19$m=65536,t=3,p=4$x", "scrypt$16384$8$1$AAAA$AAAA"]
)
def test_a_damaged_hash_or_a_name_that_nobody_has_is_a_no(stored: str | None) -> None:
    assert not verify_password("x", stored)


def test_every_made_password_is_another_and_one_that_a_person_may_have() -> None:
    assert len({new_password() for _ in range(100)}) == 100
    assert check_password(new_password(), "ann")


@pytest.mark.parametrize(
    ("password", "name"), [("short", "ann"), ("x" * 1025, "ann"), ("Ann@Example.com", "ann@example.com")]
)
def test_a_password_that_is_too_easy_is_refused(password: str, name: str) -> None:
    with pytest.raises(ValueError, match="password"):
        check_password(password, name)
