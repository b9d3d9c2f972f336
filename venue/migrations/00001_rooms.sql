-- +goose Up
-- Texts are canonical JSON byte for byte; times are unix seconds.

-- One row per room. Lives until Options.Keep after finalized_at.
CREATE TABLE venue_rooms (
    agreement    TEXT   NOT NULL PRIMARY KEY, -- agreement id, UUIDv7
    revision     TEXT   NOT NULL,             -- the locked revision, exactly the bytes that were signed
    digest       TEXT   NOT NULL,             -- SHA-256 of revision, lowercase hex
    signature    TEXT   NOT NULL,             -- the initiator's kind 1418 event, as JSON
    initiator    TEXT   NOT NULL,             -- public key of p1
    locked_at    BIGINT NOT NULL,
    deadline     BIGINT NOT NULL,
    outcome      TEXT   NOT NULL,             -- pending reached disagreed no_consensus expired
    finalized_at BIGINT,                      -- NULL while pending
    bundle       TEXT                         -- canonical bundle/v1, made once when the room closed
);
CREATE INDEX venue_rooms_due ON venue_rooms (outcome, deadline, agreement);
CREATE INDEX venue_rooms_initiator ON venue_rooms (initiator, locked_at);

-- The chain of each room: the key makes two events with one number impossible.
-- Lives as long as its room.
CREATE TABLE venue_events (
    agreement TEXT   NOT NULL REFERENCES venue_rooms (agreement) ON DELETE CASCADE,
    seq       BIGINT NOT NULL,
    event     TEXT   NOT NULL, -- canonical event/v1
    PRIMARY KEY (agreement, seq)
);

-- Who belongs to which room by key. Lives as long as the room.
CREATE TABLE venue_members (
    pubkey       TEXT   NOT NULL,
    agreement    TEXT   NOT NULL REFERENCES venue_rooms (agreement) ON DELETE CASCADE,
    participant  TEXT   NOT NULL,           -- p1 to p8
    query_window BIGINT NOT NULL DEFAULT 0, -- start of the hour that query_sent counts
    query_sent   BIGINT NOT NULL DEFAULT 0, -- messages sent for queries in that hour
    PRIMARY KEY (pubkey, agreement),
    UNIQUE (agreement, participant)
);

-- +goose Down
DROP TABLE venue_members;
DROP TABLE venue_events;
DROP TABLE venue_rooms;
