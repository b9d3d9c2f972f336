-- +goose Up

-- Agreements that were erased and whose files may still be there.
CREATE TABLE agent_erasing (
    agreement_id TEXT PRIMARY KEY
);

-- +goose Down
DROP TABLE agent_erasing;
