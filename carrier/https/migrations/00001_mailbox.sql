-- +goose Up
-- Times are unix seconds.

-- Sealed messages that wait for their recipient to fetch and delete them.
CREATE TABLE https_envelopes (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    wrap_id     TEXT NOT NULL UNIQUE,
    recipient   TEXT NOT NULL,
    size        INTEGER NOT NULL,
    received_at BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    wrap        BLOB NOT NULL
);
CREATE INDEX https_envelopes_recipient ON https_envelopes (recipient, seq);
CREATE INDEX https_envelopes_expires_at ON https_envelopes (expires_at);

-- What waits in each box, so that a quota costs no count.
CREATE TABLE https_boxes (
    recipient TEXT PRIMARY KEY,
    count     BIGINT NOT NULL,
    size      BIGINT NOT NULL
);

-- Addresses of others that were asked whether they serve a recipient.
CREATE TABLE https_answers (
    address      TEXT NOT NULL,
    recipient    TEXT NOT NULL,
    host         TEXT NOT NULL,
    answered     BOOLEAN NOT NULL,
    serves       BOOLEAN NOT NULL,
    ask_again_at BIGINT NOT NULL,
    PRIMARY KEY (address, recipient)
);
CREATE INDEX https_answers_host ON https_answers (host);
CREATE INDEX https_answers_ask_again_at ON https_answers (ask_again_at);

-- +goose Down
DROP TABLE https_answers;
DROP TABLE https_boxes;
DROP TABLE https_envelopes;
