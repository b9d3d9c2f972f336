-- +goose Up

-- Which process leased the message last, and until when. The lease is in force
-- while due_ms is its end.
ALTER TABLE carrier_outbox ADD COLUMN leased_by TEXT NOT NULL DEFAULT '';
ALTER TABLE carrier_outbox ADD COLUMN leased_ms BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE carrier_outbox DROP COLUMN leased_ms;
ALTER TABLE carrier_outbox DROP COLUMN leased_by;
