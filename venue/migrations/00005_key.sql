-- +goose Up

-- The public key of the venue whose rooms these are; one row.
CREATE TABLE venue_key (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    pubkey TEXT NOT NULL
);

-- +goose Down
DROP TABLE venue_key;
