from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from bus.security.signatures import Signer, new_secret, secret_bytes

BODY = json.dumps({"order": 42, "text": "订单"}).encode()


def verify(secret: str, signature: str, body: bytes = BODY, message_id: str = "m1", now: int | None = None) -> None:
    headers = {"webhook-id": message_id, "webhook-timestamp": str(now), "webhook-signature": signature}
    standardwebhooks.Webhook(secret).verify(body, headers)


@pytest.mark.filterwarnings("ignore:datetime:DeprecationWarning")
def test_the_public_library_verifies():
    secret, now = new_secret(), int(time.time())
    verify(secret, Signer([secret]).sign("m1", now, BODY), now=now)


@pytest.mark.filterwarnings("ignore:datetime:DeprecationWarning")
def test_both_secrets_verify_during_rotation():
    secrets, now = [new_secret(), new_secret()], int(time.time())
    signature = Signer(secrets).sign("m1", now, BODY)
    assert [part[:3] for part in signature.split(" ")] == ["v1,", "v1,"]
    for secret in secrets:
        verify(secret, signature, now=now)
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(new_secret(), signature, now=now)


@pytest.mark.filterwarnings("ignore:datetime:DeprecationWarning")
@pytest.mark.parametrize("change", [{"body": BODY + b" "}, {"message_id": "m2"}])
def test_changes_are_noticed(change):
    secret, now = new_secret(), int(time.time())
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        verify(secret, Signer([secret]).sign("m1", now, BODY), now=now, **change)


@given(st.binary(min_size=24, max_size=64), st.text(max_size=50), st.integers(0, 2**40), st.binary(max_size=5000))
def test_it_is_hmac(key, message_id, timestamp, body):
    secret = "whsec_" + base64.b64encode(key).decode()
    digest = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    assert Signer([secret]).sign(message_id, timestamp, body) == "v1," + base64.b64encode(digest).decode()


def test_signers_keep_no_state():
    signer = Signer([new_secret()])
    assert signer.sign("a", 1, b"x") == signer.sign("a", 1, b"x") != signer.sign("b", 1, b"x")


def test_new_secrets():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(secret_bytes(secret)) == 32 for secret in secrets)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "abc",
        "whsec_",
        "whsec_!!!",
        "whsec_abc",
        "WHSEC_" + "A" * 32,
        "whsec_" + "A" * 28,
        "whsec_" + "A" * 88,
        "whsec_é",
        " whsec_" + "A" * 32,
        "whsec_" + "A" * 32 + "\n",
        "whsec_" + "A" * 31,
    ],
)
def test_malformed_secrets(secret):
    with pytest.raises(ValueError, match="a secret") as caught:
        Signer([secret])
    assert "AAAA" not in str(caught.value)


def test_no_secret():
    with pytest.raises(ValueError, match="needs a secret"):
        Signer([])
