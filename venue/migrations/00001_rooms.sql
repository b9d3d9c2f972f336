-- +goose Up
-- Texts are canonical JSON byte for byte; times are unix seconds.

-- One row per room. It lives until Options.Keep after finalized_at.
CREATE TABLE venue_rooms (
    agreement    TEXT   NOT NULL PRIMARY KEY, -- agreement id, UUIDv7
    revision     TEXT   NOT NULL,             -- the locked revision, exactly the bytes that were proposed
    digest       TEXT   NOT NULL,             -- SHA-256 of revision, lowercase hex
    initiator    TEXT   NOT NULL,             -- public key of p1
    locked_at    BIGINT NOT NULL,
    deadline     BIGINT NOT NULL,
    head         TEXT   NOT NULL,             -- hash of the last event
    outcome      TEXT   NOT NULL,             -- pending reached disagreed no_consensus expired
    finalized_at BIGINT,                      -- NULL while pending
    bundle       TEXT                         -- canonical bundle/v1, made once, when the room closed
);
CREATE INDEX venue_rooms_due ON venue_rooms (outcome, deadline, agreement);
CREATE INDEX venue_rooms_initiator ON venue_rooms (initiator, locked_at);
CREATE INDEX venue_rooms_finalized ON venue_rooms (finalized_at);

-- The chain of each room; its key makes two events of one number impossible.
-- A row lives as long as its room.
CREATE TABLE venue_events (
    agreement TEXT   NOT NULL REFERENCES venue_rooms (agreement) ON DELETE CASCADE,
    seq       BIGINT NOT NULL,
    event     TEXT   NOT NULL, -- canonical event/v1
    PRIMARY KEY (agreement, seq)
);

-- Which key acts for which participant of which room: each participant's own
-- key and its delegate's. A row lives as long as its room.
CREATE TABLE venue_members (
    pubkey      TEXT NOT NULL,
    agreement   TEXT NOT NULL REFERENCES venue_rooms (agreement) ON DELETE CASCADE,
    participant TEXT NOT NULL, -- p1 to p8
    PRIMARY KEY (pubkey, agreement)
);
CREATE INDEX venue_members_agreement ON venue_members (agreement);

-- +goose Down
DROP TABLE venue_members;
DROP TABLE venue_events;
DROP TABLE venue_rooms;
