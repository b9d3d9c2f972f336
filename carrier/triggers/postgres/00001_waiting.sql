-- +goose Up

-- Each connection counts in a slot of its own, so that transactions do not wait
-- for each other.
LOCK TABLE carrier_outbox IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO carrier_waiting (slot, messages, bytes)
SELECT 0, count(*), coalesce(sum(size), 0) FROM carrier_outbox WHERE state = 'queued';

-- +goose StatementBegin
CREATE FUNCTION carrier_count_waiting() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    more BIGINT := 0;
    weight BIGINT := 0;
BEGIN
    IF OLD.state = 'queued' THEN
        more := more - 1;
        weight := weight - OLD.size;
    END IF;
    IF NEW.state = 'queued' THEN
        more := more + 1;
        weight := weight + NEW.size;
    END IF;
    IF more <> 0 OR weight <> 0 THEN
        INSERT INTO carrier_waiting AS w (slot, messages, bytes) VALUES (pg_backend_pid() % 64, more, weight)
        ON CONFLICT (slot) DO UPDATE SET messages = w.messages + excluded.messages, bytes = w.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER carrier_outbox_waiting AFTER INSERT OR DELETE OR UPDATE OF state ON carrier_outbox
FOR EACH ROW EXECUTE FUNCTION carrier_count_waiting();

-- +goose Down
DROP TRIGGER carrier_outbox_waiting ON carrier_outbox;
DROP FUNCTION carrier_count_waiting();
