"""Callers of an agent: this machine by a loopback name, others with the agent's own key."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.agent.admission import Admission
from bus.agent.options import AgentOptions
from bus.errors import ConfigurationError


def options(host: str, key: str | None) -> AgentOptions:
    return AgentOptions(url="http://x", api_key=key, spool=Path("spool"), source="a", host=host, port=0)


def status(admission: Admission, **headers: str) -> int:
    refusal = admission.refusal({name.encode(): value.encode() for name, value in headers.items()})
    return refusal.status if refusal else 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_on_loopback_names_count_and_keys_do_not(host: str) -> None:
    admission = Admission(options(host, "secret"))
    for name in ("127.0.0.1", "localhost:8710", "LOCALHOST", "[::1]:8710"):
        assert status(admission, host=name) == 200
        assert status(admission, host=name, authorization="Bearer another") == 200
    for name in ("evil.example", "localhost.evil.example", "10.0.0.1", ""):
        assert status(admission, host=name, authorization="Bearer secret") == 403
    assert status(admission) == 403


@pytest.mark.parametrize(
    "page",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8710"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_a_page_in_a_browser_sends_nothing_by_loopback(page: dict[str, str]) -> None:
    assert status(Admission(options("127.0.0.1", "secret")), host="127.0.0.1:8710", **page) == 403
    beyond = Admission(options("0.0.0.0", "secret"))
    assert status(beyond, host="node-1", authorization="Bearer secret", **page) == 200


def test_a_person_may_look_how_it_is() -> None:
    assert status(Admission(options("127.0.0.1", None)), host="localhost:8710", **{"sec-fetch-site": "none"}) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "node-1"])
def test_beyond_loopback_the_key_counts(host: str) -> None:
    admission = Admission(options(host, "secret"))
    assert status(admission, host="any.example", authorization="Bearer secret") == 200
    assert status(admission, host="any.example", authorization="bearer secret") == 200
    for shown in ("Bearer other", "secret", "Basic secret", "Bearer secret ", ""):
        assert status(admission, host="127.0.0.1", authorization=shown) == 401
    assert status(admission, host="127.0.0.1") == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "node-1"])
@pytest.mark.parametrize("key", ["", None])
def test_without_a_key_it_stays_on_this_machine(host: str, key: str | None) -> None:
    with pytest.raises(ConfigurationError, match="has no key"):
        options(host, key)
