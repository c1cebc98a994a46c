"""The tables of schema ``laser``, and how an older one becomes a newer one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from laser.engines.postgres.driver import Connection
from laser.errors import UnsupportedError

__all__ = ["CATALOG_MIGRATIONS", "KV_MIGRATIONS", "prepare"]

# One number for all of laser, so that whoever makes or changes a table waits for the other.
_LOCK: Final = 0x6C61736572  # "laser"

_BASE: Final = """
CREATE SCHEMA IF NOT EXISTS laser;
CREATE TABLE IF NOT EXISTS laser.schema_versions (component text PRIMARY KEY, version integer NOT NULL);
"""

_KV_1: Final = """
CREATE TABLE laser.kv (
    namespace bytea NOT NULL, -- UTF-8. As text could not hold NUL, and would be in the order of some language
    key bytea NOT NULL,
    version bigint NOT NULL,
    expires_at timestamptz,
    value bytea NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX kv_expires_at ON laser.kv (expires_at) WHERE expires_at IS NOT NULL;
CREATE SEQUENCE laser.kv_versions AS bigint;

-- The writes of one key queue up at its lock. So each sees what the one before it left, and gets a higher version, also
-- after a delete, which leaves no row to lock.
CREATE FUNCTION laser.kv_set_1(
    of_namespace bytea, of_key bytea, new_value bytea, expected bigint, ttl_micros bigint, key_lock bigint,
    OUT given bigint, OUT there bigint
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    moment timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(key_lock);
    moment := clock_timestamp();
    SELECT version INTO there FROM laser.kv
        WHERE namespace = of_namespace AND key = of_key AND (expires_at IS NULL OR expires_at > moment);
    there := coalesce(there, 0);
    IF expected >= 0 AND expected <> there THEN
        given := 0;
        RETURN;
    END IF;
    given := nextval('laser.kv_versions');
    INSERT INTO laser.kv (namespace, key, version, expires_at, value) VALUES (
        of_namespace, of_key, given,
        CASE WHEN ttl_micros > 0 THEN moment + ttl_micros * interval '1 microsecond' END,
        new_value
    ) ON CONFLICT (namespace, key) DO UPDATE
        SET version = excluded.version, expires_at = excluded.expires_at, value = excluded.value;
    -- Each write that will expire removes a few that have, so they do not pile up. It never waits for another's lock.
    IF ttl_micros > 0 THEN
        DELETE FROM laser.kv WHERE (namespace, key) IN (
            SELECT namespace, key FROM laser.kv WHERE expires_at <= moment
            ORDER BY expires_at LIMIT 8 FOR UPDATE SKIP LOCKED
        );
    END IF;
END $$;

CREATE FUNCTION laser.kv_delete_1(
    of_namespace bytea, of_key bytea, expected bigint, key_lock bigint, OUT removed integer, OUT there bigint
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(key_lock);
    SELECT version INTO there FROM laser.kv
        WHERE namespace = of_namespace AND key = of_key AND (expires_at IS NULL OR expires_at > clock_timestamp());
    there := coalesce(there, 0);
    IF expected >= 0 AND expected <> there THEN
        removed := -1;
        RETURN;
    END IF;
    DELETE FROM laser.kv WHERE namespace = of_namespace AND key = of_key;
    removed := least(there, 1);
END $$;
"""

KV_MIGRATIONS: Final[tuple[str, ...]] = (_KV_1,)
"""Scripts of the key-value store: the one at index n turns version n into n + 1. A released one never changes. A
function that changes gets a new name, because processes of both releases may run at once."""

_CATALOG_1: Final = """
CREATE TABLE laser.contents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bytea NOT NULL, -- UTF-8
    digest bytea NOT NULL, -- SHA-256
    size bigint NOT NULL,
    admitted_at timestamptz NOT NULL, -- never set back
    object_key text, -- none when the bytes are in data
    parts bytea NOT NULL,
    data bytea,
    UNIQUE (tenant, digest)
);
-- Bytes of all kinds come in, and most are compressed already: looking for more costs and gives nothing.
ALTER TABLE laser.contents ALTER COLUMN data SET STORAGE EXTERNAL;

-- What protects a content refers to it, so that the server itself refuses to remove it.
CREATE TABLE laser.content_holds (
    tenant bytea NOT NULL,
    holder bytea NOT NULL, -- UTF-8
    content bigint NOT NULL REFERENCES laser.contents (id),
    PRIMARY KEY (tenant, holder, content)
);
CREATE INDEX content_holds_content ON laser.content_holds (content);

CREATE TABLE laser.content_children (
    parent bigint NOT NULL REFERENCES laser.contents (id) ON DELETE CASCADE,
    child bigint NOT NULL REFERENCES laser.contents (id),
    PRIMARY KEY (parent, child)
);
CREATE INDEX content_children_child ON laser.content_children (child);

-- Keys that may have an object and that no content names.
CREATE TABLE laser.loose_objects (
    object_key text PRIMARY KEY,
    since timestamptz NOT NULL,
    uploading boolean NOT NULL
);

CREATE TABLE laser.leases (
    name text PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);
"""

_CATALOG_2: Final = """
-- Where the message is that holds; see laser.content.places.
ALTER TABLE laser.content_holds ADD COLUMN place text;
CREATE INDEX content_holds_place ON laser.content_holds (tenant, holder, content) WHERE place IS NOT NULL;
"""

CATALOG_MIGRATIONS: Final[tuple[str, ...]] = (_CATALOG_1, _CATALOG_2)
"""Scripts of the content catalog, as those of the key-value store."""


def prepare(connection: Connection, component: str, migrations: Sequence[str]) -> None:
    """Makes the tables of a component, or brings older ones up to date. Safe in several processes at once.

    Raises:
        UnsupportedError: a newer laser made them.
    """
    # Looked at first without a lock and without any right but to read: mostly there is nothing to do.
    if _version(connection, component, len(migrations)) == len(migrations):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (_LOCK,))
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        connection.execute("SET LOCAL client_min_messages = warning")
        connection.execute(_BASE)
        version = _version(connection, component, len(migrations))
        for script in migrations[version:]:
            connection.execute(sql.SQL(script))
        connection.execute(
            "INSERT INTO laser.schema_versions (component, version) VALUES (%s, %s) "
            "ON CONFLICT (component) DO UPDATE SET version = excluded.version",
            (component, len(migrations)),
        )


def _version(connection: Connection, component: str, known: int) -> int:
    row = connection.execute("SELECT to_regclass('laser.schema_versions') IS NOT NULL").fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT version FROM laser.schema_versions WHERE component = %s", (component,)).fetchone()
    version: int = 0 if row is None else row[0]
    if version > known:
        raise UnsupportedError(
            f"the PostgreSQL schema laser has version {version} of {component!r}, this release of laser knows {known}; "
            "use the release that made it, or a newer one"
        )
    return version
