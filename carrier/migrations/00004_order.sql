-- +goose Up

-- The number of the last message to a recipient within a thread.
CREATE TABLE carrier_threads (
    recipient  TEXT NOT NULL,
    thread     TEXT NOT NULL,
    last_seq   BIGINT NOT NULL,
    keep_until BIGINT NOT NULL,
    PRIMARY KEY (recipient, thread)
);
CREATE INDEX carrier_threads_keep_until ON carrier_threads (keep_until);

-- The message's own seq; 0 for unordered.
ALTER TABLE carrier_inbox ADD COLUMN thread_seq BIGINT NOT NULL DEFAULT 0;
CREATE INDEX carrier_inbox_thread_seq ON carrier_inbox (sender, thread, thread_seq) WHERE thread_seq > 0;

-- +goose Down
DROP INDEX carrier_inbox_thread_seq;
ALTER TABLE carrier_inbox DROP COLUMN thread_seq;
DROP TABLE carrier_threads;
