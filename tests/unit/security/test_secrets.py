from __future__ import annotations

import base64

import pytest

from bus.errors import ConfigurationError
from bus.security.secrets import SecretBox

KEY = "k" * 32


@pytest.mark.parametrize("key", [None, KEY])
def test_round_trip(key):
    box = SecretBox(key)
    assert box.open(box.seal("whsec_é")) == "whsec_é"
    assert SecretBox(key).open(box.seal("")) == ""


def test_sealed_text_does_not_show_the_secret():
    box = SecretBox(KEY)
    sealed = box.seal("whsec_abc")
    assert sealed.startswith("aesgcm:")
    assert b"whsec" not in base64.b64decode(sealed.removeprefix("aesgcm:"))
    assert sealed != box.seal("whsec_abc")
    assert SecretBox(None).seal("whsec_abc") == "plain:whsec_abc"


def test_plain_can_be_opened_after_a_key_was_set():
    assert SecretBox(KEY).open(SecretBox(None).seal("x")) == "x"


@pytest.mark.parametrize("box", [SecretBox(None), SecretBox("another key entirely")])
def test_other_key(box):
    with pytest.raises(ConfigurationError):
        box.open(SecretBox(KEY).seal("x"))


@pytest.mark.parametrize("stored", ["", "x", "aesgcm:", "aesgcm:!!", "aesgcm:AAAA", "aesgcm:" + "A" * 64, "aesgcm:é"])
def test_damage(stored):
    with pytest.raises(ConfigurationError):
        SecretBox(KEY).open(stored)


def test_short_key():
    with pytest.raises(ConfigurationError, match="16"):
        SecretBox("short")


def test_the_former_key_opens_and_the_new_one_seals():
    old, new = SecretBox(KEY), SecretBox("n" * 32, KEY)
    assert new.open(old.seal("x")) == new.open(new.seal("x")) == new.open(SecretBox(None).seal("x")) == "x"
    assert SecretBox("n" * 32).open(new.seal("x")) == "x"
    for other in (old, SecretBox(KEY, "o" * 32)):
        with pytest.raises(ConfigurationError, match="another key"):
            other.open(new.seal("x"))
    with pytest.raises(ConfigurationError, match="BUS_SECRET_KEY_OLD"):
        SecretBox(KEY, "short")


def test_what_rests_otherwise_than_it_would_today_is_stale():
    old, new, none = SecretBox(KEY), SecretBox("n" * 32, KEY), SecretBox(None)
    assert [new.is_current(box.seal("x")) for box in (new, old, none)] == [True, False, False]
    assert [none.is_current(box.seal("x")) for box in (new, none)] == [False, True]
    assert not new.is_current("aesgcm:!!")
