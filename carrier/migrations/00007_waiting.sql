-- +goose Up

-- How much of the outbox is queued: the sum over all rows. Triggers keep it, so
-- that every way a row comes, changes or goes is counted; each kind of database
-- spells them its own way, in the folder triggers.
CREATE TABLE carrier_waiting (
    slot     BIGINT PRIMARY KEY,
    messages BIGINT NOT NULL,
    bytes    BIGINT NOT NULL
);

-- +goose Down
DROP TABLE carrier_waiting;
