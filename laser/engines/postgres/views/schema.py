"""The tables of read views."""

from __future__ import annotations

from typing import Final

__all__ = ["VIEW_MIGRATIONS"]

_VIEWS_1: Final = """
CREATE TABLE laser.view_positions (
    view text NOT NULL,
    stream bytea NOT NULL, -- UTF-8, like all text below: a database may be of an encoding that knows less
    topic bytea NOT NULL,
    position text, -- none when nothing was applied
    PRIMARY KEY (view, stream, topic)
);

-- Streams with topics, namespaces, conversations, agents, users, applications and models, as numbers.
CREATE TABLE laser.memory_names (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind integer NOT NULL,
    place bigint NOT NULL, -- the stream and topic; 0 for a stream and topic itself
    name bytea NOT NULL,
    UNIQUE (kind, place, name)
);

CREATE TABLE laser.memory_items (
    row bigint PRIMARY KEY,
    place bigint NOT NULL,
    ns bigint NOT NULL,
    id text NOT NULL,
    conv bigint NOT NULL,
    agent bigint,
    usr bigint,
    app bigint,
    kind bytea NOT NULL,
    body bytea NOT NULL,
    at bigint NOT NULL,
    part integer NOT NULL,
    off bigint NOT NULL,
    fact_key bytea,
    origin bytea,
    expires bigint,
    durable boolean NOT NULL,
    more bytea,              -- JSON of sources and lineage
    state smallint NOT NULL, -- 0: a later copy, 1: replaced by a newer value, 2: shown, 3: shown, the first of its id
    weight float8,           -- the sum of the feedback
    size integer NOT NULL,   -- words of the body
    words bigint[] NOT NULL  -- hashes of namespace and word, and of namespace and word of its label
);
CREATE SEQUENCE laser.memory_rows AS bigint OWNED BY laser.memory_items.row;
CREATE INDEX memory_items_id ON laser.memory_items (ns, id);
CREATE INDEX memory_items_place ON laser.memory_items (place, part, off);
CREATE INDEX memory_items_conv ON laser.memory_items (ns, conv, at, part, off) WHERE state >= 2;
CREATE INDEX memory_items_at ON laser.memory_items (ns, at, part, off) WHERE state = 3;
CREATE INDEX memory_items_usr ON laser.memory_items (ns, usr, at) WHERE state = 3 AND usr IS NOT NULL;
CREATE INDEX memory_items_app ON laser.memory_items (ns, app, at) WHERE state = 3 AND app IS NOT NULL;
CREATE INDEX memory_items_fact ON laser.memory_items (ns, fact_key, conv) WHERE fact_key IS NOT NULL;
CREATE INDEX memory_items_expires ON laser.memory_items (ns, expires) WHERE expires IS NOT NULL;
-- Without a list of what is still to be put in: a question would walk through all of it.
CREATE INDEX memory_items_words ON laser.memory_items USING gin (words) WITH (fastupdate = off);

CREATE TABLE laser.memory_feedback (
    place bigint NOT NULL,
    part integer NOT NULL,
    off bigint NOT NULL,
    ns bigint NOT NULL,
    target text NOT NULL,
    within bigint, -- a conversation
    weight float8 NOT NULL,
    PRIMARY KEY (place, part, off)
);
CREATE INDEX memory_feedback_target ON laser.memory_feedback (ns, target);

CREATE TABLE laser.memory_tombs (
    place bigint NOT NULL,
    part integer NOT NULL,
    off bigint NOT NULL,
    ns bigint NOT NULL,
    target text NOT NULL,
    within bigint,
    pruned boolean NOT NULL,
    hides boolean NOT NULL DEFAULT false, -- it hid an item that may still be on the log when it has gone
    PRIMARY KEY (place, part, off)
);
CREATE INDEX memory_tombs_target ON laser.memory_tombs (ns, target);

-- Summaries by what went into them.
CREATE TABLE laser.memory_sources (
    ns bigint NOT NULL,
    source text NOT NULL,
    id text NOT NULL,
    PRIMARY KEY (ns, source, id)
);

CREATE TABLE laser.memory_vectors (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- grows, so that a process can ask for what is new
    model bigint NOT NULL, -- a name
    ns bigint NOT NULL,
    row bigint NOT NULL,
    vector bytea NOT NULL, -- little-endian floats of 4 bytes, of length 1
    UNIQUE (model, row)
);
CREATE INDEX memory_vectors_ns ON laser.memory_vectors (model, ns, number);
CREATE INDEX memory_vectors_row ON laser.memory_vectors (row);

-- Models that items of a namespace were embedded with, and which of its shown items lack their vectors.
CREATE TABLE laser.memory_models (
    ns bigint NOT NULL,
    model bigint NOT NULL,
    PRIMARY KEY (ns, model)
);
CREATE TABLE laser.memory_unembedded (
    model bigint NOT NULL,
    ns bigint NOT NULL,
    row bigint NOT NULL,
    PRIMARY KEY (model, ns, row)
);
CREATE INDEX memory_unembedded_row ON laser.memory_unembedded (row);
"""

_VIEWS_2: Final = """
CREATE TABLE laser.graph_places (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream bytea NOT NULL,
    topic bytea NOT NULL,
    UNIQUE (stream, topic)
);
CREATE TABLE laser.graph_spaces (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    place bigint NOT NULL,
    graph bytea NOT NULL,
    UNIQUE (place, graph)
);
CREATE TABLE laser.graph_nodes (
    space bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    label bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, id)
);
CREATE INDEX graph_nodes_label ON laser.graph_nodes (space, label, id);
CREATE INDEX graph_nodes_value ON laser.graph_nodes (space, value, id);
CREATE TABLE laser.graph_edges (
    space bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    type bytea NOT NULL,
    target text COLLATE "C" NOT NULL,
    PRIMARY KEY (space, id)
);
CREATE INDEX graph_edges_out ON laser.graph_edges (space, source, type, id);
CREATE INDEX graph_edges_in ON laser.graph_edges (space, target, type, id);
-- What single records say of single fields of nodes and edges.
CREATE TABLE laser.graph_cells (
    place bigint NOT NULL,
    space bigint NOT NULL,
    kind integer NOT NULL, -- 0 a node's, 1 an edge's
    id text COLLATE "C" NOT NULL,
    field bytea NOT NULL,
    part integer NOT NULL,
    off bigint NOT NULL,
    at bigint NOT NULL,
    value bytea NOT NULL, -- JSON
    PRIMARY KEY (space, kind, id, field, part, off)
);
CREATE INDEX graph_cells_record ON laser.graph_cells (place, part, off);
"""

VIEW_MIGRATIONS: Final[tuple[str, ...]] = (_VIEWS_1, _VIEWS_2)
"""Scripts of the read views. See ``KV_MIGRATIONS``."""
