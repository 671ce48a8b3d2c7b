"""RabbitMQ nodes for tests that share them."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.servers import docker, need
from tests.servers.rabbitmq import RabbitmqServer
from tests.servers.rabbitmq_cluster import RabbitmqCluster

IMAGE = "rabbitmq:3.13"

_running = ExitStack()


@functools.cache
def shared() -> str:
    """Return the AMQP URL of the one broker of this process, which runs until its end.

    It is the environment's, else one in Docker where an engine answers, else the local one called ``primary``.
    """
    if url := os.environ.get("BUS_TEST_RABBITMQ"):
        return url
    if docker.answers():
        from testcontainers.rabbitmq import RabbitMqContainer  # noqa: PLC0415 - only where an engine answers

        parameters = _running.enter_context(RabbitMqContainer(IMAGE)).get_connection_params()
        return f"amqp://guest:guest@{parameters.host}:{parameters.port}/"
    return local("primary").url


@functools.cache
def local(name: str) -> RabbitmqServer:
    """Return the one local node of that name, for tests that kill, stop and wipe it and then start it again."""
    home = need("rabbitmq")
    folder = Path(tempfile.mkdtemp(prefix=f"bus-rabbitmq-{name}-"))
    _running.callback(shutil.rmtree, folder, ignore_errors=True)
    return _running.enter_context(RabbitmqServer(home, folder, name=name))


@functools.cache
def cluster(name: str) -> RabbitmqCluster:
    """Return the one local cluster of that name, for tests that harm its nodes and then start it again."""
    home, data = need("rabbitmq"), need("rabbitmq_cluster")
    folder = Path(tempfile.mkdtemp(prefix=f"bus-rabbitmq-{name}-"))
    _running.callback(shutil.rmtree, folder, ignore_errors=True)
    return _running.enter_context(RabbitmqCluster(home, folder, data))


atexit.register(_running.close)
