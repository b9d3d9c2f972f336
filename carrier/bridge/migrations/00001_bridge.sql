-- +goose Up
-- Times are unix seconds; columns named *_ms are unix milliseconds.

-- What was moved and what waits. event is empty once it is sent or dead.
CREATE TABLE bridge_items (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    bridge     TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    direction  TEXT NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    lane       TEXT NOT NULL,
    due_ms     BIGINT NOT NULL,
    attempts   INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    keep_until BIGINT NOT NULL,
    event      BLOB NOT NULL,
    UNIQUE (bridge, event_id)
);
CREATE INDEX bridge_items_queued ON bridge_items (bridge, direction, lane, seq) WHERE state = 'queued';
CREATE INDEX bridge_items_keep_until ON bridge_items (keep_until);

-- The newest version of each card that was taken.
CREATE TABLE bridge_cards (
    bridge     TEXT NOT NULL,
    pubkey     TEXT NOT NULL,
    d          TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    event_id   TEXT NOT NULL,
    PRIMARY KEY (bridge, pubkey, d)
);

CREATE TABLE bridge_cursors (
    bridge    TEXT NOT NULL,
    direction TEXT NOT NULL,
    cursor    TEXT NOT NULL,
    PRIMARY KEY (bridge, direction)
);

-- Who runs a bridge; term grows with every renewal.
CREATE TABLE bridge_leases (
    bridge TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    term   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE bridge_leases;
DROP TABLE bridge_cursors;
DROP TABLE bridge_cards;
DROP TABLE bridge_items;
