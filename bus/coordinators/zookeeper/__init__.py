"""ZooKeeper as a coordinator, through kazoo."""

from bus.coordinators.zookeeper.documents import ZookeeperDocuments

__all__ = ["ZookeeperDocuments"]
