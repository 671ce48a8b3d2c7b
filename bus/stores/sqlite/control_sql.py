"""The SQL of ``control.db``: unfinished work and documents."""

from typing import Final

STEPS: Final = (
    """
CREATE TABLE lane (
    number INTEGER PRIMARY KEY,
    destination TEXT NOT NULL,
    subscription TEXT NOT NULL,
    UNIQUE (destination, subscription)
);
CREATE TABLE compensation (
    row INTEGER PRIMARY KEY,
    message_id BLOB NOT NULL,
    lane INTEGER NOT NULL REFERENCES lane (number),
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    rest BLOB NOT NULL,
    ready_at INTEGER NOT NULL AS (max(due_at, lease_until)) VIRTUAL,
    UNIQUE (message_id, lane)
);
CREATE INDEX compensation_lane_ready ON compensation (lane, ready_at);
CREATE INDEX compensation_ready ON compensation (ready_at);
CREATE TABLE document (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (collection, key)
) WITHOUT ROWID;
""",
    """
ALTER TABLE lane ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
UPDATE lane SET waiting = (SELECT count(*) FROM compensation WHERE lane = number);
CREATE TABLE served (destination TEXT NOT NULL, subscription TEXT NOT NULL);
INSERT INTO served VALUES ('', '');
""",
    """
ALTER TABLE compensation ADD COLUMN set_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX compensation_set ON compensation (set_at);
""",
    """
ALTER TABLE compensation ADD COLUMN order_key TEXT NOT NULL DEFAULT '';
ALTER TABLE compensation ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
CREATE INDEX compensation_order ON compensation (lane, order_key, place) WHERE place > 0;
""",
)

NUMBER_OF_LANE: Final = "SELECT number FROM lane WHERE destination = ? AND subscription = ?"
ADD_LANE: Final = "INSERT INTO lane (destination, subscription) VALUES (?, ?) RETURNING number"
ADD_WAITING: Final = "UPDATE lane SET waiting = waiting + ? WHERE number = ?"
DATA_VERSION: Final = "PRAGMA data_version"  # changes with every commit of another connection
WAITING: Final = "SELECT destination, subscription, waiting, number FROM lane WHERE waiting > 0"
UNFINISHED: Final = """
SELECT destination, subscription, waiting,
    (SELECT count(*) FROM compensation INDEXED BY compensation_lane_ready WHERE lane = number AND ready_at <= ?),
    (SELECT min(ready_at) FROM compensation INDEXED BY compensation_lane_ready WHERE lane = number AND ready_at < ?2)
FROM lane WHERE waiting > 0
"""

INSERT_COMPENSATION: Final = """
INSERT INTO compensation
    (message_id, lane, due_at, generation, attempts, lease_until, epoch, rest, set_at, order_key, place, owner)
VALUES (?1, ?2, ?3, ?4, ?5, ?10, 0, ?6, ?7, ?8, ?9, ?11)
ON CONFLICT DO NOTHING
"""
# A row that keeps an order keeps its place, and can never be leased.
REPLACE_COMPENSATION: Final = """
UPDATE compensation
SET due_at = CASE WHEN place > 0 AND ?9 = 0 THEN due_at ELSE ?3 END,
    generation = ?4, attempts = ?5, lease_until = ?10, owner = ?11, rest = ?6, set_at = ?7,
    order_key = CASE WHEN ?9 > 0 THEN ?8 ELSE order_key END,
    place = CASE WHEN ?9 > 0 THEN ?9 ELSE place END
WHERE message_id = ?1 AND lane = ?2 AND (generation, attempts) < (?4, ?5)
"""
DELETE_COMPENSATION: Final = "DELETE FROM compensation WHERE message_id = ? AND lane = ? AND generation <= ?"
READY_IN_LANE: Final = """
SELECT row, epoch, rest, due_at, ready_at FROM compensation INDEXED BY compensation_lane_ready
WHERE lane = ?1 AND ready_at <= ?2 AND (ready_at, row) > (?3, ?4) AND lease_until <= ?6
ORDER BY ready_at, row LIMIT ?5
"""
SERVED: Final = "SELECT destination, subscription FROM served"
SET_SERVED: Final = "UPDATE served SET destination = ?, subscription = ?"
LEASE: Final = "UPDATE compensation SET lease_until = ?, epoch = ?, owner = ?, set_at = ? WHERE row = ?"
RECLAIM: Final = "UPDATE compensation SET lease_until = 0 WHERE lease_until > 0 AND owner = ?"
UNLEASE: Final = """
UPDATE compensation SET lease_until = 0
WHERE message_id = ? AND lane = ? AND generation = ? AND attempts = ? AND epoch = ?
"""
LAST_SET: Final = "SELECT max(set_at) FROM compensation INDEXED BY compensation_set"
REWIND: Final = """
UPDATE compensation INDEXED BY compensation_set
SET due_at = CASE
        WHEN place > 0 OR lane IN (SELECT number FROM lane WHERE subscription = '') THEN due_at
        ELSE due_at - set_at + ?1
    END,
    lease_until = max(0, lease_until - set_at + ?1),
    set_at = ?1
WHERE set_at > ?2
"""
NEXT_READY: Final = "SELECT min(ready_at) FROM compensation INDEXED BY compensation_ready WHERE ready_at < ?"
READY_FIRST: Final = """
SELECT destination, subscription FROM lane JOIN (
    SELECT lane FROM compensation INDEXED BY compensation_ready WHERE ready_at <= ? ORDER BY ready_at LIMIT ?
) ON number = lane
"""
READY: Final = """
SELECT destination, subscription FROM lane
WHERE waiting > 0 AND EXISTS (
    SELECT 1 FROM compensation INDEXED BY compensation_lane_ready WHERE lane = number AND ready_at <= ?
)
"""
ORDERED_KEYS: Final = """
SELECT order_key, count(*), max(place) FROM compensation INDEXED BY compensation_order
WHERE lane = (SELECT number FROM lane WHERE destination = ?1 AND subscription = ?2) AND place > 0
    AND (?3 IS NULL OR order_key > ?3)
GROUP BY order_key ORDER BY order_key LIMIT ?4
"""
ORDERED_ROWS: Final = """
SELECT rest, order_key, place FROM compensation INDEXED BY compensation_order
WHERE lane = (SELECT number FROM lane WHERE destination = ?1 AND subscription = ?2)
    AND order_key = ?3 AND place > 0 AND place > ?4
ORDER BY place LIMIT ?5
"""
ROWS_OF_LANE: Final = """
SELECT ready_at, row, rest FROM compensation INDEXED BY compensation_lane_ready
WHERE lane = (SELECT number FROM lane WHERE destination = ?1 AND subscription = ?2) AND (ready_at, row) > (?3, ?4)
ORDER BY ready_at, row LIMIT ?5
"""

GET_DOCUMENT: Final = "SELECT key, version, value FROM document WHERE collection = ? AND key = ?"
# Of two lower bounds SQLite's index takes the first; with one, a page far behind costs no more than the first page.
LIST_DOCUMENTS: Final = """
SELECT key, version, value FROM document
WHERE collection = ?1 AND key >= max(?2, ?3) AND +key > ?3 AND key < ?4 AND substr(key, 1, length(?2)) = ?2
ORDER BY key LIMIT ?5
"""
VALUES_OF_DOCUMENTS: Final = "SELECT value FROM document WHERE collection = ? ORDER BY key"
DOCUMENT_VERSION: Final = "SELECT version FROM document WHERE collection = ? AND key = ?"
PUT_DOCUMENT: Final = """
INSERT INTO document (collection, key, version, value) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET version = excluded.version, value = excluded.value
"""
DELETE_DOCUMENT: Final = "DELETE FROM document WHERE collection = ? AND key = ?"
DUE_NAMES: Final = """
SELECT row, message_id, subscription FROM compensation JOIN lane ON lane.number = compensation.lane
WHERE row > ? ORDER BY row LIMIT ?
"""
