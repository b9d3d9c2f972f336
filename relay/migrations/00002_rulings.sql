-- +goose Up
-- +goose StatementBegin

-- What administrators ruled (NIP-86). The row of the list 'version' counts the
-- changes.
CREATE TABLE relay_rulings (
    list    text   NOT NULL,
    subject text   NOT NULL,                -- key, event id, kind, network, or empty
    text    text   NOT NULL,                -- reason, or the text that is set
    admin   text   NOT NULL,                -- key of who ruled
    at      bigint NOT NULL,                -- Unix time; of the version its number
    PRIMARY KEY (list, subject)
);
-- +goose StatementEnd

-- +goose Down
DROP TABLE relay_rulings;
