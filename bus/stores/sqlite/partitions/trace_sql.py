"""The SQL of a partition: the messages of one day and retention class."""

from typing import Final

from bus.domain.delivery.delivery import Status
from bus.domain.tracing.signature import FAILING as HAS_SIGNATURE

# Numbers of states inside the files, and in the SQL below; never changed, only added to.
STATUS: Final = {
    Status.PENDING: 0,
    Status.RETRYING: 1,
    Status.RESEND: 2,
    Status.DELIVERED: 3,
    Status.SKIPPED: 4,
    Status.CANCELED: 5,
    Status.PARKED: 6,
    Status.DEAD: 7,
}
NAMES: Final = {number: status for status, number in STATUS.items()}
DELIVERED: Final = STATUS[Status.DELIVERED]
FAILING: Final = frozenset(STATUS[status] for status in HAS_SIGNATURE)
OPEN: Final = (Status.PENDING, Status.RETRYING, Status.RESEND)

# message: ``destination`` is null until the message itself has arrived, so that only whole ones are listed.
# delivery: one row for each delivery that is not ``delivered``, so that unfinished and failed ones are found
# at once, and the healthy path pays nothing.
# failure: one row for each delivery that fails, by how; ``at`` is when it failed last.
# reference: one row for each further name of a message (its key, trace id, first id); those without pay nothing.
STEPS: Final = (
    """
CREATE TABLE message (
    row INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    destination INTEGER,
    biz_id TEXT,
    source TEXT,
    status INTEGER NOT NULL,
    document BLOB NOT NULL
);
CREATE INDEX message_destination ON message (destination, id) WHERE destination IS NOT NULL;
CREATE INDEX message_biz_id ON message (biz_id, id) WHERE biz_id IS NOT NULL;
CREATE INDEX message_source ON message (source, id) WHERE source IS NOT NULL;
CREATE INDEX message_status ON message (status, id) WHERE status <> 3;
CREATE TABLE body (
    message INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
);
CREATE TABLE delivery (
    lane INTEGER NOT NULL,
    status INTEGER NOT NULL,
    id BLOB NOT NULL,
    message INTEGER NOT NULL,
    PRIMARY KEY (lane, status, id)
) WITHOUT ROWID;
CREATE TABLE destination (number INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE);
CREATE TABLE lane (
    number INTEGER PRIMARY KEY,
    destination TEXT NOT NULL,
    subscription TEXT NOT NULL,
    UNIQUE (destination, subscription)
);
CREATE TABLE newest (received_at INTEGER NOT NULL);
INSERT INTO newest VALUES (0);
""",
    """
CREATE TABLE failure (
    lane INTEGER NOT NULL,
    signature INTEGER NOT NULL,
    id BLOB NOT NULL,
    status INTEGER NOT NULL,
    at INTEGER NOT NULL,
    message INTEGER NOT NULL,
    PRIMARY KEY (lane, signature, id)
) WITHOUT ROWID;
CREATE TABLE signature (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
""",
    """
CREATE TABLE reference (
    name NOT NULL,
    id BLOB NOT NULL,
    PRIMARY KEY (name, id)
) WITHOUT ROWID;
""",
)

DATA_VERSION: Final = "PRAGMA data_version"  # changes with every commit of another connection
LANES: Final = "SELECT destination, subscription FROM lane"
ADD_DESTINATION: Final = "INSERT INTO destination (code) VALUES (?) RETURNING number"
ADD_LANE: Final = "INSERT INTO lane (destination, subscription) VALUES (?, ?) RETURNING number"
NEWEST: Final = "SELECT received_at FROM newest"
SET_NEWEST: Final = "UPDATE newest SET received_at = ?"
LAST_ROW: Final = "SELECT coalesce(max(row), 0) FROM message"

INSERT_MESSAGE: Final = """
INSERT INTO message (row, id, destination, biz_id, source, status, document) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
UPDATE_MESSAGE: Final = """
UPDATE message SET destination = ?, biz_id = ?, source = ?, status = ?, document = ? WHERE row = ?
"""
UPDATE_STATE: Final = "UPDATE message SET status = ?, document = ? WHERE row = ?"
UPDATE_DOCUMENT: Final = "UPDATE message SET document = ? WHERE row = ?"
ROW_OF: Final = "SELECT row FROM message WHERE id = ?"
DOCUMENT_OF: Final = "SELECT row, document FROM message WHERE id = ?"
PUT_BODY: Final = "INSERT OR REPLACE INTO body (message, bytes) VALUES (?, ?)"
DOCUMENT_AND_BODY: Final = """
SELECT document, coalesce(body.bytes, x'') FROM message LEFT JOIN body ON body.message = message.row WHERE id = ?
"""
SCAN: Final = "SELECT id, document, NULL FROM message WHERE id > ? AND id < ? ORDER BY id LIMIT ?"
SCAN_WITH_BODIES: Final = """
SELECT id, document, coalesce(body.bytes, x'') FROM message LEFT JOIN body ON body.message = message.row
WHERE id > ? AND id < ? ORDER BY id LIMIT ?
"""
ADD_DELIVERY: Final = "INSERT OR REPLACE INTO delivery (lane, status, id, message) VALUES (?, ?, ?, ?)"
DROP_DELIVERY: Final = "DELETE FROM delivery WHERE lane = ? AND status = ? AND id = ?"
ADD_FAILURE: Final = """
INSERT OR REPLACE INTO failure (lane, signature, status, at, id, message) VALUES (?, ?, ?, ?, ?, ?)
"""
DROP_FAILURE: Final = "DELETE FROM failure WHERE lane = ? AND signature = ? AND id = ?"

ADD_REFERENCE: Final = "INSERT OR IGNORE INTO reference (name, id) VALUES (?, ?)"
DROP_REFERENCE: Final = "DELETE FROM reference WHERE name = ? AND id = ?"

NUMBER_OF_DESTINATION: Final = "SELECT number FROM destination WHERE code = ?"
NUMBER_OF_SIGNATURE: Final = "SELECT number FROM signature WHERE text = ?"
ADD_SIGNATURE: Final = "INSERT INTO signature (text) VALUES (?) RETURNING number"
NUMBER_OF_LANE: Final = "SELECT number FROM lane WHERE destination = ? AND subscription = ?"
HAS_OPEN: Final = """
SELECT EXISTS (
    SELECT 1 FROM lane JOIN delivery ON delivery.lane = lane.number
    WHERE delivery.status IN (0, 1, 2)
)
"""
IN_STATE: Final = """
SELECT delivery.id, message.document FROM delivery CROSS JOIN message ON message.row = delivery.message
WHERE delivery.lane = ? AND delivery.status = ? AND delivery.id > ? AND delivery.id < ?
ORDER BY delivery.id LIMIT ?
"""

# The ways to list messages, each along one index in the order of ids: the FROM and the WHERE. m is the table of
# messages, i the one whose index has the order.
BY_ID: Final = ("message AS m INDEXED BY sqlite_autoindex_message_1", "m.destination IS NOT NULL")
BY_DESTINATION: Final = ("message AS m INDEXED BY message_destination", "m.destination = :destination")
BY_SOURCE: Final = ("message AS m INDEXED BY message_source", "m.source = :source")
BY_BIZ_ID: Final = ("message AS m INDEXED BY message_biz_id", "m.biz_id = :biz_id")
BY_STATUS: Final = ("message AS m INDEXED BY message_status", "m.status = {status} AND m.status <> 3")
BY_DELIVERY: Final = ("delivery AS i", "i.lane = :lane AND i.status = {status}")
BY_SIGNATURE: Final = ("failure AS i", "i.lane = :lane AND i.signature = :signature")
BY_OWN_ID: Final = ("message AS m INDEXED BY sqlite_autoindex_message_1", "m.id = :own AND m.destination IS NOT NULL")
BY_TRACE: Final = (
    "message AS m INDEXED BY sqlite_autoindex_message_1",
    "m.id >= :first_traced AND m.id <= :last_traced AND m.destination IS NOT NULL",
)
BY_OWN_BIZ_ID: Final = ("message AS m INDEXED BY message_biz_id", "m.biz_id = :called")
BY_REFERENCE: Final = ("reference AS i", "i.name = :{name}")
OF_MESSAGE: Final = " CROSS JOIN message AS m ON m.row = i.message"
OF_ID: Final = " CROSS JOIN message AS m ON m.id = i.id"

# One way's keys and rows in a range. Several ways are put together with UNION ALL, which merges what is in order.
KEYS: Final = "SELECT {ordered}.id FROM {rows} WHERE {first} AND {ordered}.id < :below AND {ordered}.id >= :since"
ROWS: Final = (
    "SELECT {ordered}.id, m.row, m.document FROM {rows} "
    "WHERE {first} AND {ordered}.id < :below AND {ordered}.id >= :since{rest}"
)
TOGETHER: Final = " UNION ALL "
NEWEST_FIRST: Final = " ORDER BY 1 DESC"
LAST_OF_STEP: Final = " LIMIT 1 OFFSET :step"  # the last key of the next so many rows
FAILURES: Final = """
SELECT lane.destination, lane.subscription, signature.text, status, deliveries, first_at, last_at, sample
FROM (
    SELECT lane AS lane_number, signature AS signature_number, status,
        count(*) AS deliveries, min(at) AS first_at, max(at) AS last_at, max(id) AS sample
    FROM failure
    WHERE lane IN (
        SELECT number FROM lane WHERE :destination IN (destination, '') AND :subscription IN (subscription, '')
    ) AND id < :below AND id >= :since
    GROUP BY lane, signature, status
)
JOIN lane ON lane.number = lane_number
JOIN signature ON signature.number = signature_number
"""
WHERE_DESTINATION: Final = " AND m.destination = :destination"
WHERE_SOURCE: Final = " AND m.source = :source"
WHERE_BIZ_ID: Final = " AND m.biz_id = :biz_id"
WHERE_STATUS: Final = " AND m.status = :status"
WHERE_TEXT: Final = " AND (instr(m.biz_id, :text) OR instr(m.source, :text) OR instr(lower(hex(m.id)), :hex))"
WHERE_DOCUMENT: Final = " AND instr(m.document, :inside)"
WHERE_BODY: Final = (
    " AND EXISTS (SELECT 1 FROM body WHERE message = m.row AND (instr(bytes, :{one}) OR instr(bytes, :{other})))"
)
BODY_OF: Final = "SELECT bytes FROM body WHERE message = ?"
