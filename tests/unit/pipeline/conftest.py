from contextlib import nullcontext

import pytest

from pipeline.commands import archiving, baselining, judging, rebuilding, reconciling, replaying, rolling

COMMANDS = (archiving, baselining, judging, rebuilding, reconciling, replaying, rolling)
"""Those that start Spark."""


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands go on without Spark; what it would find is the test's to say."""
    for module in COMMANDS:
        monkeypatch.setattr(module, "running", lambda *_, **__: nullcontext())
