"""Documents in ZooKeeper keep the contract of those in any store."""

from __future__ import annotations

import pytest

from bus.coordinators.zookeeper import ZookeeperDocuments
from bus.testing.contracts.store_documents import DocumentContract
from tests.servers.zookeeper_fixtures import documents, place, zookeeper

__all__ = ["documents", "place", "zookeeper"]


class TestZookeeperDocuments(DocumentContract):
    @pytest.fixture
    def store(self, documents: ZookeeperDocuments) -> ZookeeperDocuments:
        return documents
