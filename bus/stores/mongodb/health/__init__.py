"""The health of a MongoDB: members of the replica set, and the time that its oplog covers."""

from bus.stores.mongodb.health.replica_set import read_health

__all__ = ["read_health"]
