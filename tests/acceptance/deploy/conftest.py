"""The image, made once a run for all tests that start something of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.harness.image import Image
from tests.harness.process import ROOT
from tests.servers import missing, need


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Carry out the steps of the Dockerfile, which takes half a minute."""
    if os.geteuid() != 0:
        missing("only root may change its root")
    work = tmp_path_factory.mktemp("image")
    yield Image(
        ROOT / "deploy" / "image" / "Dockerfile", ROOT, {"debian:bookworm-slim": need("debian_root")}, work
    ).build()
    shutil.rmtree(work)
