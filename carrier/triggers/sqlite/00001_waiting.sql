-- +goose Up
INSERT INTO carrier_waiting (slot, messages, bytes)
SELECT 0, count(*), coalesce(sum(size), 0) FROM carrier_outbox WHERE state = 'queued';

-- +goose StatementBegin
CREATE TRIGGER carrier_outbox_comes AFTER INSERT ON carrier_outbox WHEN NEW.state = 'queued'
BEGIN
    UPDATE carrier_waiting SET messages = messages + 1, bytes = bytes + NEW.size;
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER carrier_outbox_changes AFTER UPDATE OF state ON carrier_outbox WHEN (OLD.state = 'queued') <> (NEW.state = 'queued')
BEGIN
    UPDATE carrier_waiting SET
        messages = messages + (NEW.state = 'queued') - (OLD.state = 'queued'),
        bytes = bytes + NEW.size * (NEW.state = 'queued') - OLD.size * (OLD.state = 'queued');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER carrier_outbox_goes AFTER DELETE ON carrier_outbox WHEN OLD.state = 'queued'
BEGIN
    UPDATE carrier_waiting SET messages = messages - 1, bytes = bytes - OLD.size;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER carrier_outbox_goes;
DROP TRIGGER carrier_outbox_changes;
DROP TRIGGER carrier_outbox_comes;
