-- +goose Up
-- What was answered to a command with a key. The scope starts with the part
-- that owns the row ("venue/…"), so that other parts can keep theirs here.
-- A row lives until expires, then the owner's sweep removes it.
CREATE TABLE idempotency (
    scope        TEXT   NOT NULL, -- who asks where: venue/<agreement>/<participant>
    key          TEXT   NOT NULL, -- the caller's key
    request_hash TEXT   NOT NULL, -- SHA-256 of the canonical request, lowercase hex
    response     TEXT   NOT NULL, -- what the first request was answered
    expires      BIGINT NOT NULL, -- unix seconds
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_expires ON idempotency (expires);

-- +goose Down
DROP TABLE idempotency;
