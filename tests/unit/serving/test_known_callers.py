"""Requests that count as those of a caller with a key."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bus.http.asgi import Field
from bus.serving.process import _callers
from bus.settings import Settings


def _has_session(headers: Sequence[Field]) -> bool:
    return (b"cookie", b"session") in headers


def _is_known(*headers: Field, metrics_key: str = "scraper", is_open: bool = False) -> bool:
    keyring = SimpleNamespace(is_open=is_open, knows=lambda shown: shown == b"Bearer key")
    peer_key = SimpleNamespace(opens=lambda shown: shown == b"Bearer peer")
    settings = Settings(metrics_key=metrics_key)
    context: Any = SimpleNamespace(settings=settings, keyring=keyring, peer_key=peer_key, descriptors=None)
    offers: Any = SimpleNamespace(credentials=(_has_session,))
    return _callers(context, offers).has_credentials(headers)


@pytest.mark.parametrize("shown", [b"Bearer key", b"Bearer peer", b"Bearer scraper"])
def test_a_key_of_the_bus_of_a_process_and_of_the_metrics_are_known(shown: bytes) -> None:
    assert _is_known((b"host", b"x"), (b"authorization", shown))
    assert not _is_known((b"host", b"x"), (b"authorization", shown + b"x"))
    assert not _is_known((b"x-authorization", shown))


def test_without_a_key_for_metrics_no_empty_one_is_known() -> None:
    assert not _is_known((b"authorization", b"Bearer "), metrics_key="")
    assert not _is_known((b"authorization", b""), metrics_key="")


def test_a_session_is_known_and_in_an_open_bus_everybody() -> None:
    assert _is_known((b"cookie", b"session"))
    assert not _is_known((b"cookie", b"other"))
    assert _is_known(is_open=True)
