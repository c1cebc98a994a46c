"""Every limit at its edge and one beyond, through the public API. One beyond is refused before anything is written."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import laser as ls
from laser import limits
from laser.model.records import NewRecord
from laser.wire.provenance import encode_provenance
from tests.commands import ROOT

pytestmark = pytest.mark.anyio

TOPIC = "events"
CONVERSATION = ls.derive_conversation_id("limits")

TESTED = {
    "CONTEXT_READ_WINDOW": "tests/context/test_window.py::test_the_window_slides_by_raw_records",
    "COPY_DISTANCE": "tests/test_limits.py::test_copies",
    "DEFAULT_LAST_N": "tests/test_limits.py::test_the_default_count",
    "MAX_PAYLOAD_BYTES": "tests/context/test_window.py::test_g1_the_largest_payload_and_one_byte_more",
    "MAX_HEADER_BYTES": "tests/test_limits.py::test_fields_of_provenance",
    "MAX_PROVENANCE_BYTES": "tests/test_limits.py::test_all_of_a_provenance",
    "HEADER_FRAMING_BYTES": "tests/test_limits.py::test_all_of_a_provenance",
    "MAX_NAME_BYTES": "tests/test_limits.py::test_names",
    "MAX_PARTITIONS": "tests/test_limits.py::test_partitions",
    "MAX_BATCH_RECORDS": "tests/test_limits.py::test_records_of_a_batch",
    "MAX_BATCH_BYTES": "tests/test_limits.py::test_bytes_of_a_batch",
    "MAX_OFFSET": "tests/test_limits.py::test_offsets_of_a_checkpoint",
    "MAX_TIMEOUT_SECONDS": "tests/test_limits.py::test_timeouts",
    "MAX_KV_KEY_BYTES": "tests/context/test_kv.py::test_the_limits_themselves_are_allowed",
    "MAX_KV_VALUE_BYTES": "tests/context/test_kv.py::test_the_limits_themselves_are_allowed",
    "MAX_KV_NAMESPACE_BYTES": "tests/context/test_kv.py::test_the_limits_themselves_are_allowed",
    "MAX_SCAN_LIMIT": "tests/context/test_kv.py::test_the_limits_themselves_are_allowed",
    "MAX_SCAN_BYTES": "laser/testing/kv_cases/scanning.py::test_a_page_of_large_values_ends_early",
    "MAX_KV_TTL_MICROS": "tests/test_limits.py::test_times_to_live",
    "MAX_LABEL_BYTES": "tests/test_limits.py::test_labels",
    "MAX_MEMORY_BODY_BYTES": "tests/memory/test_limits.py::test_bodies",
    "MAX_MEMORY_RESULTS": "tests/memory/test_limits.py::test_results",
    "DEFAULT_MEMORY_RESULTS": "tests/memory/test_limits.py::test_results_by_default",
    "MAX_FACT_KEY_BYTES": "tests/memory/test_limits.py::test_keys_of_facts",
    "MAX_LCM_PAGE": "tests/compaction/test_lcm_tools.py::test_bad_arguments",
    "MAX_LCM_PAGE_BYTES": "tests/compaction/test_lcm_tools.py::test_expand_goes_on_in_a_long_row",
    "MAX_LCM_QUERY_BYTES": "tests/compaction/test_lcm_tools.py::test_bad_arguments",
    "MAX_FRAMES": "tests/compaction/test_snapcompact.py::test_settings_that_are_refused",
    "MAX_INLINE_FRAMES": "tests/compaction/test_frames.py::test_the_budget",
    "MAX_KEPT_FRAMES": "tests/compaction/test_frames.py::test_the_cache_is_bounded_and_gives_what_was_drawn",
    "MAX_PATH_BYTES": "tests/workspace/test_limits.py::test_paths",
    "MAX_PATH_PART_BYTES": "tests/workspace/test_limits.py::test_paths",
    "MAX_PATH_DEPTH": "tests/workspace/test_limits.py::test_paths",
    "MAX_WORKSPACE_NAME_BYTES": "tests/workspace/test_limits.py::test_names",
    "MAX_NOTE_BYTES": "tests/workspace/test_limits.py::test_notes",
    "MAX_GRAPH_NAME_BYTES": "tests/graph/test_limits.py::test_names",
    "MAX_GRAPH_LABEL_BYTES": "tests/graph/test_limits.py::test_texts",
    "MAX_GRAPH_VALUE_BYTES": "tests/graph/test_limits.py::test_texts",
    "MAX_GRAPH_ATTRIBUTES_BYTES": "tests/graph/test_limits.py::test_attributes",
    "MAX_GRAPH_WRITE": "tests/graph/test_limits.py::test_one_write",
    "MAX_GRAPH_DEPTH": "tests/graph/test_limits.py::test_depth",
    "MAX_GRAPH_RESULTS": "tests/graph/test_limits.py::test_results",
    "MAX_GRAPH_EDGES": "tests/graph/test_limits.py::test_edges_of_a_walk",
    "MAX_REPLY_BYTES": "tests/models/test_reading.py::test_the_largest_answer",
    "MAX_CACHE_KEY_CHARS": "tests/models/test_lowering.py::test_limits",
    "MAX_TOOL_NAME_CHARS": "tests/models/test_lowering.py::test_limits",
    "MAX_PROVIDER_CHARS": "tests/prompt/test_gathering.py::test_characters_at_the_limit",
    "MAX_PROVIDER_FRAGMENTS": "tests/prompt/test_gathering.py::test_fragments_beyond_the_limit",
    "MAX_BRIEFING_FIELDS": "tests/prompt/test_limits.py::test_fields_of_a_briefing",
    "MAX_BRIEFING_VALUE_BYTES": "tests/prompt/test_limits.py::test_values_of_a_briefing",
    "DEFAULT_CACHE_BYTES": "tests/context/cache/test_cached_equals_uncached.py::test_random_histories",
    "MAX_INLINE_BYTES": "tests/content/test_limits.py::test_what_the_catalog_keeps",
    "CONTENT_PART_BYTES": "tests/content/test_limits.py::test_parts",
    "MAX_CONTENT_BYTES": "tests/content/test_limits.py::test_content",
    "MAX_TENANT_BYTES": "tests/content/test_limits.py::test_tenants",
    "MAX_HOLDER_BYTES": "tests/content/test_limits.py::test_holders",
    "MAX_PLACE_BYTES": "tests/content/beside/test_doubt.py::test_the_longest_place",
    "MAX_CONTENT_REFS": "tests/content/test_limits.py::test_references_of_a_call",
    "MAX_MEDIA_TYPE_BYTES": "tests/content/test_limits.py::test_media_types",
    "MAX_ENTRY_TEXT_BYTES": "tests/content/test_limits.py::test_texts_of_an_entry",
    "MAX_PREVIEW_BYTES": "tests/content/test_limits.py::test_previews",
    "CONTENT_GRACE_SECONDS": "tests/content/test_limits.py::test_the_grace_is_a_week",
    "MAX_ENTRY_BYTES": "tests/session/test_limits.py::test_entries",
    "MAX_ENTRY_KEY_BYTES": "tests/session/test_limits.py::test_entries",
    "MAX_ENTRY_PREVIEW_BYTES": "tests/session/test_limits.py::test_entries",
    "MAX_SUPERSEDED_VERSIONS": "tests/session/active/test_context.py::test_catalogs_supersede_by_appending",
    "DEFAULT_COMPACTION_LEASE_SECONDS": "tests/session/test_limits.py::test_the_default_lease",
    "MAX_COMPACTION_LEASE_SECONDS": "tests/session/active/test_compaction.py::test_the_lease_bounds_the_work",
    "MAX_TRANSCRIPT_PAGE": "tests/session/test_transcripts.py::test_bad_cursors_and_limits",
    "MAX_FOLDER_ENTRIES": "tests/session/test_limits.py::test_entries_of_a_folder",
    "MAX_INSTRUCTION_BYTES": "tests/session/discovery/test_discovery.py::test_what_is_over_a_limit_is_left_out_whole",
    "MAX_INSTRUCTIONS_BYTES": "tests/session/discovery/test_discovery.py::test_what_is_over_a_limit_is_left_out_whole",
    "MAX_SKILL_BYTES": "tests/session/discovery/test_discovery.py::test_many_skills",
    "MAX_SKILL_DESCRIPTION_CHARS": "tests/session/discovery/test_discovery.py::test_bad_skills",
    "MAX_SKILLS": "tests/session/discovery/test_discovery.py::test_many_skills",
}


@pytest.fixture
async def laser() -> AsyncIterator[ls.Laser]:
    async with ls.Laser.connect("memory:") as client:
        await client.ensure_topic(TOPIC)
        await client.ensure_topic(ls.AgentTopic.Control)
        yield client


@pytest.fixture
def scope(laser: ls.Laser) -> ls.ContextScope:
    return laser.context(CONVERSATION)


def test_every_limit_has_its_test() -> None:
    assert set(TESTED) == {name for name in vars(limits) if re.fullmatch(r"[A-Z_]+", name)}
    for place in TESTED.values():
        file, _, test = place.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), place


async def refused(call: Callable[[], Any], argument: str, size: int | None, limit: int | None) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        await call()
    assert caught.value.argument == argument
    if limit is not None:
        assert isinstance(caught.value, ls.LimitError)
        assert (caught.value.size, caught.value.limit) == (size, limit)


async def written(laser: ls.Laser) -> int:
    return (await laser.topic(TOPIC)).records


async def test_the_default_count(scope: ls.ContextScope) -> None:
    await scope.append_many(TOPIC, [f"{number}" for number in range(limits.DEFAULT_LAST_N)])
    assert len(await scope.fetch(topics=[TOPIC])) == limits.DEFAULT_LAST_N
    await scope.append(TOPIC, "one more")
    messages = await scope.fetch(topics=[TOPIC])
    assert [messages[0].text, messages[-1].text, len(messages)] == ["1", "one more", limits.DEFAULT_LAST_N]


@pytest.mark.parametrize(("distance", "shown"), [(limits.COPY_DISTANCE, 1), (limits.COPY_DISTANCE + 1, 2)])
async def test_copies(laser: ls.Laser, scope: ls.ContextScope, distance: int, shown: int) -> None:
    log, headers = laser.open_log(), encode_provenance(ls.Provenance(conversation_id=CONVERSATION))
    ids = [1, *range(2, distance + 1), 1]
    for number in ids:
        await log.append(laser.stream, TOPIC, [NewRecord(number, b"%d" % number, headers)], key=CONVERSATION)
    assert [message.text for message in await scope.fetch(topics=[TOPIC], n=1_000)].count("1") == shown
    folded: int = await scope.state([TOPIC], 0, lambda state, message: state + (message.text == "1"), full=True)
    assert folded == shown


@pytest.mark.parametrize("unit", ["x", "é"])
async def test_fields_of_provenance(laser: ls.Laser, scope: ls.ContextScope, unit: str) -> None:
    edge = unit * (limits.MAX_HEADER_BYTES // len(unit.encode()))
    assert limits.MAX_HEADER_BYTES - len(edge.encode()) < len(unit.encode())
    await scope.append(TOPIC, "x", agent=edge)
    assert (await scope.fetch(topics=[TOPIC]))[0].provenance.agent == edge
    with pytest.raises(ls.LimitError) as caught:
        await scope.append(TOPIC, "x", agent=edge + unit)
    assert (caught.value.size, caught.value.limit) == (len((edge + unit).encode()), limits.MAX_HEADER_BYTES)
    assert await written(laser) == 1


async def test_all_of_a_provenance(laser: ls.Laser, scope: ls.ContextScope) -> None:
    keys = {
        "conversation_id": "gen_ai.conversation.id",
        "agent": "gen_ai.agent.id",
        "target_agent_id": "agdx.to",
        "idempotency_key": "agdx.idem",
        "correlation_id": "agdx.corr",
    }
    full = dict.fromkeys(("agent", "target_agent_id", "idempotency_key"), "x" * limits.MAX_HEADER_BYTES)
    used = sum(len(key) + limits.HEADER_FRAMING_BYTES for key in keys.values())
    used += len(CONVERSATION) + sum(map(len, full.values()))
    spare = limits.MAX_PROVENANCE_BYTES - used
    assert 0 < spare < limits.MAX_HEADER_BYTES
    await scope.append(TOPIC, "x", provenance=ls.Provenance(**full, correlation_id="x" * spare))
    with pytest.raises(ls.LimitError) as caught:
        await scope.append(TOPIC, "x", provenance=ls.Provenance(**full, correlation_id="x" * (spare + 1)))
    assert (caught.value.size, caught.value.limit) == (1 + limits.MAX_PROVENANCE_BYTES, limits.MAX_PROVENANCE_BYTES)
    assert await written(laser) == 1


async def test_names(laser: ls.Laser, scope: ls.ContextScope) -> None:
    edge = "é" * (limits.MAX_NAME_BYTES // 2) + "x"
    size = limits.MAX_NAME_BYTES + 1
    await laser.ensure_topic(edge)
    await scope.append(edge, "x")
    assert len(await scope.fetch(topics=[edge])) == 1
    await refused(lambda: laser.ensure_topic(edge + "x"), "name", size, limits.MAX_NAME_BYTES)
    await refused(lambda: scope.append(edge + "x", "x"), "topic", size, limits.MAX_NAME_BYTES)
    await refused(lambda: scope.fetch(topics=[edge + "x"]), "topics", size, limits.MAX_NAME_BYTES)
    async with ls.Laser.connect("memory:", stream=edge) as other:
        assert other.stream == edge

    async def connect() -> None:
        await ls.Laser.connect("memory:", stream=edge + "x")

    await refused(connect, "stream", size, limits.MAX_NAME_BYTES)


async def test_partitions(laser: ls.Laser) -> None:
    edge = limits.MAX_PARTITIONS
    assert len((await laser.ensure_topic("wide", edge)).partitions) == edge
    await refused(lambda: laser.ensure_topic("wider", edge + 1), "partitions", None, None)
    await refused(lambda: laser.ensure_topic("none", 0), "partitions", None, None)
    assert len((await laser.add_partitions(TOPIC, edge - 1)).partitions) == edge
    with pytest.raises(ls.InvalidError):
        await laser.add_partitions(TOPIC, 1)
    await refused(lambda: laser.add_partitions(TOPIC, edge + 1), "count", None, None)
    assert {topic.name for topic in await laser.topics()} == {TOPIC, "wide", ls.AgentTopic.Control}


async def test_records_of_a_batch(laser: ls.Laser, scope: ls.ContextScope) -> None:
    edge = limits.MAX_BATCH_RECORDS
    assert len(await scope.append_many(TOPIC, [b"x"] * edge)) == edge
    await refused(lambda: scope.append_many(TOPIC, [b"x"] * (edge + 1)), "payloads", edge + 1, edge)
    assert await written(laser) == edge


async def test_bytes_of_a_batch(laser: ls.Laser, scope: ls.ContextScope) -> None:
    edge = limits.MAX_BATCH_BYTES
    half = bytes(edge // 2)
    assert len(await scope.append_many(TOPIC, [half, half])) == 2
    await refused(lambda: scope.append_many(TOPIC, [half, half, b"x"]), "payloads", edge + 1, edge)
    assert await written(laser) == 2


async def test_offsets_of_a_checkpoint(scope: ls.ContextScope) -> None:
    edge = limits.MAX_OFFSET
    checkpoint = ls.Checkpoint({TOPIC: {0: edge}})
    assert ls.Checkpoint.from_json(checkpoint.to_json()) == checkpoint
    with pytest.raises(ls.InvalidError):
        ls.Checkpoint({TOPIC: {0: edge + 1}})
    with pytest.raises(ls.CodecError):
        ls.Checkpoint.from_json(checkpoint.to_json().replace(str(edge), str(edge + 1)))
    with pytest.raises(ls.StaleCheckpointError) as caught:
        await scope.state([TOPIC], 0, lambda state, _: state, from_checkpoint=checkpoint)
    assert (caught.value.expected, caught.value.actual) == (edge, 0)


async def test_timeouts() -> None:
    async with ls.Laser.connect("memory:", timeout=limits.MAX_TIMEOUT_SECONDS):
        pass
    for timeout in (limits.MAX_TIMEOUT_SECONDS + 0.1, 0, -1.0, float("nan"), float("inf")):

        async def connect(timeout: float = timeout) -> None:
            await ls.Laser.connect("memory:", timeout=timeout)

        await refused(connect, "timeout", None, None)


async def test_times_to_live(laser: ls.Laser) -> None:
    kv, edge = laser.kv("n"), limits.MAX_KV_TTL_MICROS
    await kv.set("k", b"v", ttl=edge / 1_000_000)
    assert await kv.get("k") == b"v"
    await refused(lambda: kv.set("k", b"w", ttl=edge // 1_000_000 + 1), "ttl", edge + 1_000_000, edge)
    assert await kv.get("k") == b"v"


async def test_labels(laser: ls.Laser) -> None:
    edge = limits.MAX_LABEL_BYTES
    session = await laser.sessions().start("é" * (edge // 2))
    assert (await session.status()).label == "é" * (edge // 2)
    await refused(lambda: laser.sessions().start("é" * (edge // 2) + "x"), "label", edge + 1, edge)
    assert len(await laser.sessions().list()) == 1
