-- +goose Up
-- This made the table idempotency, which is package idempotency's now: it
-- takes over the one that is there.

-- +goose Down
