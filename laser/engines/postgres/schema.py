"""The tables of schema ``laser``, and how an older one becomes a newer one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from psycopg import sql

from laser.engines.postgres.driver import Connection
from laser.errors import UnsupportedError

__all__ = ["KV_MIGRATIONS", "prepare"]

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
