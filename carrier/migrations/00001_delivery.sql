-- +goose Up
-- Times are unix seconds; columns named *_ms are unix milliseconds.

CREATE TABLE carrier_contacts (
    pubkey   TEXT PRIMARY KEY,
    name     TEXT NOT NULL,
    note     TEXT NOT NULL,
    added_at BIGINT NOT NULL
);

CREATE TABLE carrier_cursors (
    scheme TEXT PRIMARY KEY,
    cursor TEXT NOT NULL
);

-- Wraps already dealt with. message_id is empty while a part waits for others.
CREATE TABLE carrier_wraps (
    wrap_id    TEXT PRIMARY KEY,
    sender     TEXT NOT NULL,
    message_id TEXT NOT NULL,
    keep_until BIGINT NOT NULL
);
CREATE INDEX carrier_wraps_keep_until ON carrier_wraps (keep_until);

CREATE TABLE carrier_inbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    sender      TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    type        TEXT NOT NULL,
    thread      TEXT NOT NULL,
    scheme      TEXT NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    stranger    BOOLEAN NOT NULL,
    received_at BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    keep_until  BIGINT NOT NULL,
    due_ms      BIGINT NOT NULL,
    attempts    INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    message     BLOB NOT NULL,
    UNIQUE (sender, message_id)
);
CREATE INDEX carrier_inbox_state ON carrier_inbox (state, seq);
CREATE INDEX carrier_inbox_stranger ON carrier_inbox (sender, received_at) WHERE stranger;
CREATE INDEX carrier_inbox_keep_until ON carrier_inbox (keep_until);

CREATE TABLE carrier_parts (
    sender      TEXT NOT NULL,
    digest      TEXT NOT NULL,
    part        INTEGER NOT NULL,
    total       INTEGER NOT NULL,
    deflate     BOOLEAN NOT NULL,
    wrap_id     TEXT NOT NULL,
    stranger    BOOLEAN NOT NULL,
    received_at BIGINT NOT NULL,
    slice       TEXT NOT NULL,
    PRIMARY KEY (sender, digest, part)
);
CREATE INDEX carrier_parts_received_at ON carrier_parts (received_at);

-- scheme is empty for any carrier; in_reply_to is the message an ack names.
-- due_ms is null when nothing is left to do.
CREATE TABLE carrier_outbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient   TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    type        TEXT NOT NULL,
    scheme      TEXT NOT NULL,
    in_reply_to TEXT NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    rounds      INTEGER NOT NULL,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    keep_until  BIGINT NOT NULL,
    sent_ms     BIGINT NOT NULL,
    resend_ms   BIGINT NOT NULL,
    acked_at    BIGINT NOT NULL,
    due_ms      BIGINT,
    message     BLOB NOT NULL,
    UNIQUE (recipient, message_id)
);
CREATE INDEX carrier_outbox_due_ms ON carrier_outbox (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX carrier_outbox_state ON carrier_outbox (state, created_at);
CREATE INDEX carrier_outbox_in_reply_to ON carrier_outbox (recipient, in_reply_to) WHERE in_reply_to <> '';
CREATE INDEX carrier_outbox_keep_until ON carrier_outbox (keep_until);

CREATE TABLE carrier_outbox_wraps (
    outbox_seq BIGINT NOT NULL REFERENCES carrier_outbox (seq) ON DELETE CASCADE,
    part       INTEGER NOT NULL,
    wrap_id    TEXT NOT NULL,
    wrap       BLOB NOT NULL,
    PRIMARY KEY (outbox_seq, part)
);

-- One row for each address a message was tried at; wraps counts the ones taken.
CREATE TABLE carrier_deliveries (
    outbox_seq BIGINT NOT NULL REFERENCES carrier_outbox (seq) ON DELETE CASCADE,
    scheme     TEXT NOT NULL,
    address    TEXT NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    wraps      INTEGER NOT NULL,
    retry_ms   BIGINT NOT NULL,
    PRIMARY KEY (outbox_seq, scheme, address)
);

-- +goose Down
DROP TABLE carrier_deliveries;
DROP TABLE carrier_outbox_wraps;
DROP TABLE carrier_outbox;
DROP TABLE carrier_parts;
DROP TABLE carrier_inbox;
DROP TABLE carrier_wraps;
DROP TABLE carrier_cursors;
DROP TABLE carrier_contacts;
