-- +goose Up

-- digest is the SHA-256 of a message in several wraps, else empty; wanted lists
-- the parts that its recipient misses; nacks counts how often it said so.
ALTER TABLE carrier_outbox ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE carrier_outbox ADD COLUMN wanted TEXT NOT NULL DEFAULT '';
ALTER TABLE carrier_outbox ADD COLUMN nacks INTEGER NOT NULL DEFAULT 0;
CREATE INDEX carrier_outbox_digest ON carrier_outbox (recipient, digest) WHERE digest <> '';

-- Nacks for messages of which parts are missing.
CREATE TABLE carrier_nacks (
    sender  TEXT NOT NULL,
    digest  TEXT NOT NULL,
    times   INTEGER NOT NULL,
    sent_at BIGINT NOT NULL,
    PRIMARY KEY (sender, digest)
);

-- +goose Down
DROP TABLE carrier_nacks;
DROP INDEX carrier_outbox_digest;
ALTER TABLE carrier_outbox DROP COLUMN nacks;
ALTER TABLE carrier_outbox DROP COLUMN wanted;
ALTER TABLE carrier_outbox DROP COLUMN digest;
