from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.doubles.youzan.fixtures import own
from tests.doubles.youzan.fixtures import shared as double
from tests.doubles.youzan.running import YouzanDouble
from tests.integration.youzan.raw_nsq import RawNsq
from tests.servers import need
from tests.servers.youzan_oracle import PROGRAM

__all__ = ["double", "own"]

_numbers = itertools.count(1)


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"orders-{next(_numbers)}"


@pytest.fixture
def dial() -> Iterator[Callable[..., RawNsq]]:
    """Connects to an nsqd of a cluster; closes at the end."""
    with ExitStack() as stack:
        yield lambda cluster, nsqd, **identify: stack.enter_context(RawNsq(cluster.nsqds[nsqd].tcp, **identify))


@pytest.fixture
def connect(double: YouzanDouble, dial: Callable[..., RawNsq]) -> Callable[..., RawNsq]:
    """Connects to the first nsqd of the cluster that all use, or another."""
    return lambda nsqd=1, **identify: dial(double, nsqd, **identify)


@pytest.fixture(scope="session")
def oracle() -> Path:
    return need("youzan_oracle") / PROGRAM
