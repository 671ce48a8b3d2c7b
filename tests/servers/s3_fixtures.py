"""Fixtures for tests on an object store: one server for a worker's tests, a bucket of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.lake_places import LakePlace, in_folder
from tests.servers import need
from tests.servers.versitygw import S3Server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(need("versitygw"), tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> LakePlace:
    """A lake in a new bucket, which this process and those that it starts can reach."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    name = f"test-{next(_numbers)}"
    return LakePlace(f"s3a://{name}/lake", s3_server.bucket(name) / "lake", ("--connectors", need("connectors")))


@pytest.fixture(params=["folder", "bucket"])
def lake_place(request: pytest.FixtureRequest, tmp_path: Path) -> LakePlace:
    """A lake on disk, and one in a bucket."""
    if request.param == "folder":
        return in_folder(tmp_path / "lake")
    found: LakePlace = request.getfixturevalue("bucket")
    return found
