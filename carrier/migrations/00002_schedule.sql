-- +goose Up

-- lane 0 leaves first; size is the bytes of all wraps.
ALTER TABLE carrier_outbox ADD COLUMN lane INTEGER NOT NULL DEFAULT 2;
ALTER TABLE carrier_outbox ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
ALTER TABLE carrier_deliveries ADD COLUMN sent_ms BIGINT NOT NULL DEFAULT 0;
CREATE INDEX carrier_outbox_lane ON carrier_outbox (lane, due_ms, seq) WHERE due_ms IS NOT NULL;
CREATE INDEX carrier_outbox_waiting ON carrier_outbox (state, recipient, size);

-- The address by which the recipient's last ack came to be.
CREATE TABLE carrier_routes (
    recipient TEXT PRIMARY KEY,
    scheme    TEXT NOT NULL,
    address   TEXT NOT NULL,
    worked_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE carrier_routes;
DROP INDEX carrier_outbox_waiting;
DROP INDEX carrier_outbox_lane;
ALTER TABLE carrier_deliveries DROP COLUMN sent_ms;
ALTER TABLE carrier_outbox DROP COLUMN size;
ALTER TABLE carrier_outbox DROP COLUMN lane;
