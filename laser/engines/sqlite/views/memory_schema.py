"""The tables of memory's read view."""

from __future__ import annotations

from typing import Final

__all__ = ["MEMORY_SCHEMA"]

MEMORY_SCHEMA: Final = """
-- Streams with topics, namespaces, conversations, agents, users and applications, as numbers.
CREATE TABLE memory_names (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again, like rows
    kind INTEGER NOT NULL,
    place INTEGER NOT NULL, -- the stream and topic; 0 for a stream and topic itself
    name TEXT NOT NULL,
    UNIQUE (kind, place, name)
);

CREATE TABLE memory_items (
    row INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: vectors in the memory of a process are known by it
    place INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    id TEXT NOT NULL,
    conv INTEGER NOT NULL,
    agent INTEGER,
    user INTEGER,
    app INTEGER,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    at INTEGER NOT NULL,
    part INTEGER NOT NULL,
    off INTEGER NOT NULL,
    fact_key TEXT,
    origin TEXT,
    expires INTEGER,
    durable INTEGER NOT NULL,
    more TEXT,               -- JSON of sources and lineage
    state INTEGER NOT NULL,  -- 0: a later copy, 1: replaced by a newer value, 2: shown, 3: shown, the first of its id
    weight REAL,             -- the sum of the feedback
    size INTEGER NOT NULL    -- words of the body
);
CREATE INDEX memory_items_id ON memory_items (ns, id);
CREATE INDEX memory_items_place ON memory_items (place, part, off);
CREATE INDEX memory_items_conv ON memory_items (ns, conv, at, part, off) WHERE state >= 2;
CREATE INDEX memory_items_at ON memory_items (ns, at, part, off) WHERE state = 3;
CREATE INDEX memory_items_weight ON memory_items (ns, ifnull(weight, 0), at, part, off) WHERE state = 3;
CREATE INDEX memory_items_user ON memory_items (ns, user, at) WHERE state = 3 AND user IS NOT NULL;
CREATE INDEX memory_items_app ON memory_items (ns, app, at) WHERE state = 3 AND app IS NOT NULL;
CREATE INDEX memory_items_fact ON memory_items (ns, fact_key, conv) WHERE fact_key IS NOT NULL;
CREATE INDEX memory_items_expires ON memory_items (ns, expires) WHERE expires IS NOT NULL;

CREATE TABLE memory_feedback (
    place INTEGER NOT NULL,
    part INTEGER NOT NULL,
    off INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    target TEXT NOT NULL,
    within INTEGER, -- a conversation
    weight REAL NOT NULL,
    PRIMARY KEY (place, part, off)
) WITHOUT ROWID;
CREATE INDEX memory_feedback_target ON memory_feedback (ns, target);

CREATE TABLE memory_tombs (
    place INTEGER NOT NULL,
    part INTEGER NOT NULL,
    off INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    target TEXT NOT NULL,
    within INTEGER,
    pruned INTEGER NOT NULL,
    hides INTEGER NOT NULL, -- something that retention may leave longer than this record
    PRIMARY KEY (place, part, off)
) WITHOUT ROWID;
CREATE INDEX memory_tombs_target ON memory_tombs (ns, target);

-- Summaries by what went into them.
CREATE TABLE memory_sources (
    ns INTEGER NOT NULL,
    source TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (ns, source, id)
) WITHOUT ROWID;

-- Words of the items that are shown, each with its namespace's number and ":" before it, so that a question for a word
-- meets no other namespace's; of a label with "@". Beside them ":" and a number for each other name that selects the
-- item, and ":copy" with the namespace's for all but the first of an id. "~" begins a word that is spelt in numbers.
CREATE VIRTUAL TABLE memory_words USING fts5 (
    words, content = '', detail = none, columnsize = 0, tokenize = "porter unicode61 tokenchars ':@~'"
);

CREATE TABLE memory_vectors (
    number INTEGER PRIMARY KEY AUTOINCREMENT, -- grows, so that a process can ask for what is new
    model INTEGER NOT NULL,                   -- a name
    ns INTEGER NOT NULL,
    row INTEGER NOT NULL,
    vector BLOB NOT NULL,                     -- little-endian floats of 4 bytes, of length 1
    UNIQUE (model, row)
);
CREATE INDEX memory_vectors_ns ON memory_vectors (model, ns, number);
CREATE INDEX memory_vectors_row ON memory_vectors (row);

-- Models that items of a namespace were embedded with, and which of its shown items lack their vectors.
CREATE TABLE memory_models (
    ns INTEGER NOT NULL,
    model INTEGER NOT NULL,
    PRIMARY KEY (ns, model)
) WITHOUT ROWID;
CREATE TABLE memory_unembedded (
    model INTEGER NOT NULL,
    ns INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (model, ns, row)
) WITHOUT ROWID;
CREATE INDEX memory_unembedded_row ON memory_unembedded (row);
CREATE TRIGGER memory_item_shown AFTER UPDATE OF state ON memory_items WHEN new.state >= 2 AND old.state < 2 BEGIN
    INSERT OR IGNORE INTO memory_unembedded SELECT model, ns, new.row FROM memory_models m WHERE ns = new.ns
        AND NOT EXISTS (SELECT 1 FROM memory_vectors WHERE model = m.model AND row = new.row); END;
CREATE TRIGGER memory_item_hidden AFTER UPDATE OF state ON memory_items WHEN new.state < 2 AND old.state >= 2 BEGIN
    DELETE FROM memory_unembedded WHERE row = new.row; END;
"""
