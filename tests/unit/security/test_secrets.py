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
