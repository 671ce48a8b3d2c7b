"""Servers and data that tests need and that are not Python packages; ``python -m tests.servers install`` gets them.

A test that needs one calls ``need("nsq")``: absent, it is a skip with the reason on a laptop and a failure when
``CI`` is set. Nothing is installed from inside a test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.servers import (
    axe,
    chromium,
    compose_go,
    connectors,
    debian_root,
    grafana_schema,
    kafka,
    kustomize,
    mongodb,
    nginx,
    nsq,
    otel_collector,
    payloads,
    prometheus,
    rabbitmq,
    rabbitmq_cluster,
    toxiproxy,
    versitygw,
    youzan_oracle,
    zookeeper,
)
from tests.servers.cache import InstallFailed, cache_dir

__all__ = ["KNOWN", "InstallFailed", "Known", "cache_dir", "missing", "need"]


class Known(NamedTuple):
    """Something that can be installed."""

    about: str
    find: Callable[[], Path | None]
    install: Callable[[], Path]


KNOWN = {
    "axe": Known(f"axe-core {axe.VERSION}", axe.find, axe.install),
    "chromium": Known("Debian's Chromium", chromium.find, chromium.install),
    "compose_go": Known(f"the loader of Compose {compose_go.VERSION}", compose_go.find, compose_go.install),
    "connectors": Known(f"Spark's connectors {connectors.VERSION}", connectors.find, connectors.install),
    "debian_root": Known("Debian 12 as a folder, for the image's steps", debian_root.find, debian_root.install),
    "grafana_schema": Known(
        f"Grafana's types of dashboards {grafana_schema.VERSION}", grafana_schema.find, grafana_schema.install
    ),
    "kafka": Known(f"Kafka {kafka.VERSION}", kafka.find, kafka.install),
    "kustomize": Known(f"kustomize {kustomize.VERSION}", kustomize.find, kustomize.install),
    "mongodb": Known(f"the MongoDB protocol: FerretDB {mongodb.VERSION}", mongodb.find, mongodb.install),
    "nginx": Known("Debian's nginx", nginx.find, nginx.install),
    "nsq": Known(f"nsqd, nsqlookupd and clients of NSQ {nsq.VERSION}", nsq.find, nsq.install),
    "otel_collector": Known(
        f"the OpenTelemetry Collector {otel_collector.VERSION}", otel_collector.find, otel_collector.install
    ),
    "payloads": Known(f"GitHub webhook payloads {payloads.VERSION}", payloads.find, payloads.install),
    "prometheus": Known("Debian's Prometheus", prometheus.find, prometheus.install),
    "rabbitmq": Known(f"RabbitMQ {rabbitmq.VERSION} with Debian's Erlang", rabbitmq.find, rabbitmq.install),
    "rabbitmq_cluster": Known("three RabbitMQ nodes of one cluster", rabbitmq_cluster.find, rabbitmq_cluster.install),
    "rabbitmq_management": Known(
        "the management plugin of RabbitMQ", rabbitmq.find_management, rabbitmq.install_management
    ),
    "toxiproxy": Known(f"toxiproxy {toxiproxy.VERSION}", toxiproxy.find, toxiproxy.install),
    "versitygw": Known(f"an S3 server: Versity's gateway {versitygw.VERSION}", versitygw.find, versitygw.install),
    "youzan_oracle": Known(
        f"a program with Youzan's own client of their NSQ {youzan_oracle.VERSION}",
        youzan_oracle.find,
        youzan_oracle.install,
    ),
    "zookeeper": Known(f"ZooKeeper {zookeeper.VERSION}", zookeeper.find, zookeeper.install),
}


def need(name: str) -> Path:
    """Return where a server is; without it skip the test, or fail it in CI."""
    return KNOWN[name].find() or missing(f"{name} is not installed: python -m tests.servers install {name}")


def missing(reason: str) -> NoReturn:
    """End a test that cannot run here: a skip on a laptop, a failure in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
