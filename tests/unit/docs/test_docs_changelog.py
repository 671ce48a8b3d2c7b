"""The changelog is of the version that is built."""

from __future__ import annotations

import re
import tomllib

from tests.harness.process import ROOT

RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)$", re.MULTILINE)


def test_the_newest_release_is_the_version_of_the_project() -> None:
    releases = RELEASE.findall((ROOT / "CHANGELOG.md").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert releases[0] == version
