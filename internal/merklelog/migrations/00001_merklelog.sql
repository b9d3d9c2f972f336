-- +goose Up
-- A log is its head; everything else of it is found by its number.
CREATE TABLE merklelog_logs (
    log    INTEGER PRIMARY KEY AUTOINCREMENT,
    origin TEXT   NOT NULL UNIQUE,
    size   BIGINT NOT NULL -- entries that have an index
);

-- What was appended and has no place in the log yet, repetitions too. It is
-- small, and only grows in the transactions of those who append.
CREATE TABLE merklelog_waiting (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT, -- in which entries get their place
    log  BIGINT NOT NULL,
    leaf BLOB   NOT NULL -- 32 bytes
);

CREATE TABLE merklelog_leaves (
    log  BIGINT NOT NULL,
    idx  BIGINT NOT NULL, -- place in the log, from 0
    leaf BLOB   NOT NULL, -- 32 bytes
    PRIMARY KEY (log, idx),
    UNIQUE (log, leaf)
);

-- Up to 256 hashes of the tree beside each other. The last tile of a level
-- grows; a narrower one is its beginning.
CREATE TABLE merklelog_tiles (
    log    BIGINT  NOT NULL,
    level  INTEGER NOT NULL,
    n      BIGINT  NOT NULL,
    hashes BLOB    NOT NULL, -- 32 bytes each
    PRIMARY KEY (log, level, n)
);

CREATE TABLE merklelog_checkpoints (
    log  BIGINT NOT NULL,
    size BIGINT NOT NULL,
    root BLOB   NOT NULL, -- 32 bytes
    made BIGINT NOT NULL, -- unix seconds
    PRIMARY KEY (log, size)
);

-- Signature lines of checkpoints: by the log's own keys and by witnesses.
CREATE TABLE merklelog_signatures (
    log     BIGINT  NOT NULL,
    size    BIGINT  NOT NULL,
    signer  TEXT    NOT NULL, -- the key, in one line
    witness BOOLEAN NOT NULL,
    line    TEXT    NOT NULL, -- with its line end
    PRIMARY KEY (log, size, signer)
);

-- The newest checkpoint of each log that this process cosigned as a witness.
CREATE TABLE merklelog_witnessed (
    origin TEXT   NOT NULL PRIMARY KEY,
    size   BIGINT NOT NULL,
    root   BLOB   NOT NULL
);

-- +goose Down
DROP TABLE merklelog_witnessed;
DROP TABLE merklelog_signatures;
DROP TABLE merklelog_checkpoints;
DROP TABLE merklelog_tiles;
DROP TABLE merklelog_leaves;
DROP TABLE merklelog_waiting;
DROP TABLE merklelog_logs;
