-- +goose Up

-- What a pinned server's document names beside its relay: a JSON list.
ALTER TABLE agent_servers ADD COLUMN carriers TEXT NOT NULL DEFAULT '[]';

-- Brokers and ntfy servers that the owner added, each as the JSON of its
-- request. Secrets stand in files of the owner's, which it names.
CREATE TABLE agent_carriers (
    scheme   TEXT NOT NULL,
    address  TEXT NOT NULL,
    request  TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    PRIMARY KEY (scheme, address)
);

-- Where contacts said that they are reached: the newest list of each.
CREATE TABLE agent_contact_carriers (
    pubkey     TEXT NOT NULL PRIMARY KEY,
    carriers   TEXT NOT NULL,
    sent_at    INTEGER NOT NULL,
    message_id TEXT NOT NULL
);

-- What each contact was told last of where this agent is reached.
CREATE TABLE agent_introductions (
    pubkey  TEXT NOT NULL PRIMARY KEY,
    digest  TEXT NOT NULL,
    told_at INTEGER NOT NULL
);

-- +goose Down
DROP TABLE agent_introductions;
DROP TABLE agent_contact_carriers;
DROP TABLE agent_carriers;
ALTER TABLE agent_servers DROP COLUMN carriers;
