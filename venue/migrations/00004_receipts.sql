-- +goose Up
-- The receipt of each event, where the venue issues them. A row lives as long
-- as its room.
CREATE TABLE venue_receipts (
    agreement TEXT   NOT NULL REFERENCES venue_rooms (agreement) ON DELETE CASCADE,
    seq       BIGINT NOT NULL, -- of the event
    receipt   TEXT   NOT NULL, -- compact JWS
    PRIMARY KEY (agreement, seq)
);
-- Rooms that have closed and wait for the log to prove their receipts.
CREATE INDEX venue_rooms_unproven ON venue_rooms (finalized_at, agreement) WHERE bundle IS NULL AND finalized_at IS NOT NULL;

-- +goose Down
DROP INDEX venue_rooms_unproven;
DROP TABLE venue_receipts;
