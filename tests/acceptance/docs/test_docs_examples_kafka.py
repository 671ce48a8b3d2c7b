"""The how-tos that need a Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.documented import Reader
from tests.harness.process import ROOT
from tests.servers import kafka_fixtures


@pytest.mark.parametrize("name", ["kafka", pytest.param("switch", marks=pytest.mark.proof)])
def test_the_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    env = {"BUS_KAFKA_BOOTSTRAP": kafka_fixtures.shared(), "BUS_KAFKA_PREFIX": f"docs-{name}."}
    with Reader(tmp_path, env=env) as reader:
        assert reader.read((ROOT / "docs" / "howto" / f"{name}.md").read_text("utf-8")) > 0
