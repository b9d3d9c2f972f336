-- +goose Up
CREATE TABLE agent_settings (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

-- One row per pinned server. Kept until the owner removes the home.
CREATE TABLE agent_servers (
  origin      TEXT NOT NULL PRIMARY KEY,
  name        TEXT NOT NULL,
  relay       TEXT NOT NULL,
  venue       TEXT NOT NULL,
  server_key  TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  issued_at   INTEGER NOT NULL,
  pinned_at   INTEGER NOT NULL,
  position    INTEGER NOT NULL
);

-- The newest card seen of each (key, d); it never goes back.
CREATE TABLE agent_cards (
  pubkey     TEXT NOT NULL,
  d          TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  event_id   TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  event      BLOB NOT NULL,
  PRIMARY KEY (pubkey, d)
);

-- Texts received and sent.
CREATE TABLE agent_texts (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  peer        TEXT NOT NULL,
  id          TEXT NOT NULL,
  thread      TEXT NOT NULL,
  text        TEXT NOT NULL,
  sent_at     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,
  read_at     INTEGER,
  UNIQUE (peer, id)
);
CREATE INDEX agent_texts_unread ON agent_texts (n) WHERE read_at IS NULL;

-- One row per room this key is in, with the exact revision bytes.
CREATE TABLE agent_rooms (
  agreement_id TEXT NOT NULL PRIMARY KEY,
  venue        TEXT NOT NULL,
  me           TEXT NOT NULL,
  title        TEXT NOT NULL,
  digest       TEXT NOT NULL,
  deadline     INTEGER NOT NULL,
  revision     BLOB NOT NULL,
  signature    BLOB NOT NULL,
  state        TEXT NOT NULL,
  reason       TEXT NOT NULL DEFAULT '',
  outcome      TEXT NOT NULL,
  last_seq     INTEGER NOT NULL DEFAULT 0,
  stored_at    INTEGER NOT NULL,
  queried_at   INTEGER NOT NULL DEFAULT 0
);

-- The events of a room in their exact canonical bytes.
CREATE TABLE agent_events (
  agreement_id TEXT NOT NULL REFERENCES agent_rooms (agreement_id),
  seq          INTEGER NOT NULL,
  event        BLOB NOT NULL,
  PRIMARY KEY (agreement_id, seq)
);

-- Events that came before the ones they follow; at most a hundred per room.
CREATE TABLE agent_held (
  agreement_id TEXT NOT NULL REFERENCES agent_rooms (agreement_id),
  seq          INTEGER NOT NULL,
  event        BLOB NOT NULL,
  PRIMARY KEY (agreement_id, seq)
);

-- What this agent asked of a venue and what came of it.
CREATE TABLE agent_commands (
  message_id   TEXT NOT NULL PRIMARY KEY,
  agreement_id TEXT NOT NULL,
  venue        TEXT NOT NULL,
  action       TEXT NOT NULL,
  body         TEXT NOT NULL,
  state        TEXT NOT NULL,
  code         TEXT NOT NULL DEFAULT '',
  detail       TEXT NOT NULL DEFAULT '',
  seq          INTEGER NOT NULL DEFAULT 0,
  sent_at      INTEGER NOT NULL,
  answered_at  INTEGER
);
CREATE INDEX agent_commands_room ON agent_commands (agreement_id, sent_at);

-- Bundles that passed every check.
CREATE TABLE agent_artifacts (
  agreement_id TEXT NOT NULL PRIMARY KEY,
  bundle       BLOB NOT NULL,
  stored_at    INTEGER NOT NULL,
  written_at   INTEGER
);

-- What was refused; the newest thousand.
CREATE TABLE agent_refusals (
  n            INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL,
  sender       TEXT NOT NULL,
  agreement_id TEXT NOT NULL,
  reason       TEXT NOT NULL,
  detail       TEXT NOT NULL
);

-- The live stream; the newest thousand, so that a reader can resume.
CREATE TABLE agent_notices (
  n            INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL,
  kind         TEXT NOT NULL,
  peer         TEXT NOT NULL,
  id           TEXT NOT NULL,
  agreement_id TEXT NOT NULL,
  seq          INTEGER NOT NULL,
  outcome      TEXT NOT NULL
);

-- +goose Down
DROP TABLE agent_notices;
DROP TABLE agent_refusals;
DROP TABLE agent_artifacts;
DROP TABLE agent_commands;
DROP TABLE agent_held;
DROP TABLE agent_events;
DROP TABLE agent_rooms;
DROP TABLE agent_texts;
DROP TABLE agent_cards;
DROP TABLE agent_servers;
DROP TABLE agent_settings;
