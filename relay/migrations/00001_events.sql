-- +goose Up
-- +goose StatementBegin

-- One row for each stored event. Ids and public keys are 32 bytes. age is
-- -created_at, so that ascending (age, id) is the order of answers and a page
-- of it is one range of an index.
CREATE TABLE relay_events (
    id        bytea   NOT NULL PRIMARY KEY,
    pubkey    bytea   NOT NULL,
    kind      integer NOT NULL,
    age       bigint  NOT NULL,
    address   bytea,                          -- of replaceable events
    expires   bigint,                         -- Unix time, null is never
    recipient bytea,                          -- whose quota it counts against
    words     bytea   NOT NULL,               -- the tag column of its rows in relay_tags, joined
    json      bytea   NOT NULL,               -- as it is sent
    xact      xid8    NOT NULL DEFAULT pg_current_xact_id()
);
ALTER TABLE relay_events ALTER COLUMN json SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX relay_events_address ON relay_events (address) WHERE address IS NOT NULL;
CREATE INDEX relay_events_author ON relay_events (pubkey, kind, age, id);
CREATE INDEX relay_events_kind ON relay_events (kind, age, id);
CREATE INDEX relay_events_age ON relay_events (age, id);
CREATE INDEX relay_events_expires ON relay_events (expires, id) WHERE expires IS NOT NULL;
CREATE INDEX relay_events_xact ON relay_events (xact, id);

-- tag is the letter and the first 16 bytes of the SHA-256 of the value.
CREATE TABLE relay_tags (
    tag bytea  NOT NULL,
    age bigint NOT NULL,
    id  bytea  NOT NULL,
    PRIMARY KEY (tag, age, id)
);

-- What was deleted by its author (NIP-09): id and public key, or an address.
CREATE TABLE relay_tombstones (
    key        bytea  NOT NULL PRIMARY KEY,
    created_at bigint NOT NULL                -- of the deletion request
);

-- Number of stored events of a recipient.
CREATE TABLE relay_quota (
    recipient bytea  NOT NULL PRIMARY KEY,
    events    bigint NOT NULL
);
-- +goose StatementEnd

-- +goose Down
DROP TABLE relay_events, relay_tags, relay_tombstones, relay_quota;
