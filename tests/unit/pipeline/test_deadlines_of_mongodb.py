"""No server of MongoDB is waited for without end, whatever its address has already."""

from __future__ import annotations

import pytest
from pymongo.uri_parser import parse_uri

from pipeline.sources.mongodb import with_deadlines


@pytest.mark.parametrize(
    "url",
    [
        "mongodb://h",
        "mongodb://h/",
        "mongodb://h/bus",
        "mongodb://u:p%40%2Fss@a:1,b:2/bus?replicaSet=rs",
        "mongodb://h/?sockettimeoutms=5",
    ],
)
def test_an_address_gets_deadlines_and_stays_what_it_was(url: str) -> None:
    before, after = parse_uri(url), parse_uri(with_deadlines(url))
    assert after["options"]["serverSelectionTimeoutMS"] == 10
    assert after["options"]["socketTimeoutMS"] == before["options"].get("socketTimeoutMS", 300)
    for name in ("nodelist", "database", "username", "password"):
        assert after[name] == before[name]
    assert after["options"].get("replicaSet") == before["options"].get("replicaSet")
