-- +goose Up

-- Frames that wait for the others of their wrap. wrap is the first half of its
-- SHA-256 in hex; number grows with arrival.
CREATE TABLE carrier_frames (
    wrap        TEXT NOT NULL,
    total       INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    start       INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    scheme      TEXT NOT NULL,
    inlet       TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    payload     BLOB NOT NULL,
    PRIMARY KEY (wrap, total, number)
);
CREATE INDEX carrier_frames_inlet ON carrier_frames (scheme, inlet, size);
CREATE INDEX carrier_frames_received_at ON carrier_frames (received_at);

-- The size of the frames that carrier_deliveries.wraps counts; 0 for whole wraps.
ALTER TABLE carrier_deliveries ADD COLUMN frame INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE carrier_deliveries DROP COLUMN frame;
DROP TABLE carrier_frames;
