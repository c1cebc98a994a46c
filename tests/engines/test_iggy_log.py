"""What is Iggy's own: keys, names, foreign records, retention, processes, loops, the end of the interpreter."""

from __future__ import annotations

import base64
import gc
import json
import math
import multiprocessing
import os
import struct
import subprocess
import sys
import textwrap
import urllib.request
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import anyio
import anyio.to_thread
import pytest
from apache_iggy import AutoLogin, IggyClient, Partitioning, SendMessage, TcpConfig

from laser.engines.iggy import open_iggy_log, parse_iggy_url
from laser.engines.iggy.creation import creation
from laser.engines.iggy.durability import default_of, durabilities_of, durability_of
from laser.engines.iggy.errors import Target
from laser.engines.iggy.keys import key_hash, partitions_of
from laser.engines.iggy.log import IggyLog
from laser.errors import ClosedError, InvalidError, LimitError, ProvenanceError, UnsupportedError
from laser.model.provenance import Provenance
from laser.model.records import NewRecord
from laser.model.topics import PartitionInfo, TopicConfig, TopicInfo, TopicRetention
from laser.model.window import Match, WindowQuery
from laser.testing.cluster import free_ports
from laser.testing.finding import OpenIggy
from laser.testing.server import IggyServer, find_server_binary
from laser.wire.blocks import Header, encode_block
from laser.wire.provenance import decode_provenance, encode_provenance

pytestmark = [pytest.mark.anyio, pytest.mark.iggy]

_CONV = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
_BLOCK = encode_provenance(Provenance(conversation_id=_CONV, agent="planner"))
_ids = count(1)


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@asynccontextmanager
async def _open(url: str, timeout: float = 20) -> AsyncIterator[IggyLog]:
    log = await open_iggy_log(parse_iggy_url(url)[0], timeout=timeout)
    try:
        yield log
    finally:
        await log.aclose()


async def _raw(url: str) -> IggyClient:
    config, _ = parse_iggy_url(url)
    login = AutoLogin.username_password(config.username or "", config.password or "")
    client = IggyClient(TcpConfig(server_address=config.addresses[0], auto_login=login))
    await client.connect()
    return client


def _record(payload: bytes = b"x", headers: bytes = _BLOCK) -> NewRecord:
    return NewRecord(next(_ids), payload, headers)


# ------------------------------------------------------------------------------------------------------- keys


def test_the_hash_of_keys_is_pinned() -> None:
    # The first three are published vectors of xxHash32. Another hash would move every conversation.
    pinned = {"": 0x02CC5D05, "a": 0x550D7456, "abc": 0x32D153FF, _CONV: 0xFF1BD10A}
    assert {key: key_hash(key) for key in pinned} == pinned


async def test_keys_go_where_the_driver_puts_them(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(7))
        client = await _raw(iggy.url)
        for size in [*range(1, 40), 100, 255]:
            key = ("key é " * 50)[:size]
            while len(key.encode()) > 255:
                key = key[:-1]
            sent = await client.send_messages(
                stream_name, "events", Partitioning.messages_key(key), [SendMessage(b"x")]
            )
            done = await log.append(stream_name, "events", [_record()], key=key)
            assert done.partition == sent.confirmations[0].partition_id


def test_a_key_is_looked_for_where_it_was_before_partitions_were_added() -> None:
    parts = [PartitionInfo(number, 100 if number < 2 else 200, 0, 0) for number in range(5)]
    for key in ("a", "b", "c", _CONV):
        value = key_hash(key)
        assert partitions_of(key, parts) == list(dict.fromkeys([value % 5, value % 2]))
        assert partitions_of(key, parts[:2]) == [value % 2]


async def test_added_partitions_are_used_by_other_processes_soon(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as one, _open(iggy.url) as two:
        await one.ensure_topic(stream_name, "events", TopicConfig(1))
        await two.append(stream_name, "events", [_record()], key="key")
        await one.add_partitions(stream_name, "events", 7)
        keys = [f"key-{number}" for number in range(16)]
        wanted = [(await one.append(stream_name, "events", [_record()], key=key)).partition for key in keys]
        assert len(set(wanted)) > 2
        with anyio.fail_after(60):
            while [(await two.append(stream_name, "events", [_record()], key=key)).partition for key in keys] != wanted:
                await anyio.sleep(0.1)


async def test_a_busy_partition_settles_on_one_connection(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))
        epoch = (await _info(log, stream_name)).epoch
        for number in range(300):
            done = await log.append(stream_name, "events", [_record()], key="key")
            assert done.offsets == (number,)
        assert len(log._links.all) == 3
        lane = log._appends._lanes.of(Target(stream_name, "events"), 0)
        best = lane.choose(log._links)
        assert best in log._links.all
        assert not lane.measuring
        assert (await _info(log, stream_name)).epoch == epoch, "more connections to a living server lose nothing"
        assert best is not None
        log._links.discard(best)
        for number in range(300, 600):
            done = await log.append(stream_name, "events", [_record()], key="key")
            assert done.offsets == (number,)


async def test_a_closed_log_holds_no_connection_open(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(2))
        # One partition settles on a connection, the other one is still being measured.
        for _ in range(300):
            await log.append(stream_name, "events", [_record()], key="key")
        for number in range(80):
            await log.append(stream_name, "events", [_record()], key=f"key-{number}")
        links = [weakref.ref(link) for link in log._links.all]
        assert len(links) == 3
    # The log itself is still here, as it is in the program of a user who keeps a closed client in a variable.
    gc.collect()
    assert [link() for link in links] == [None] * 3
    with pytest.raises(ClosedError):
        await log.topics(stream_name)


# ------------------------------------------------------------------------------------------------------ names


async def test_a_name_that_iggy_takes_for_a_number_is_refused(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        with pytest.raises(InvalidError, match="topic: '42' is a number to Iggy") as caught:
            await log.ensure_topic(stream_name, "42", TopicConfig(1))
        assert caught.value.argument == "topic"
        with pytest.raises(InvalidError, match="stream"):
            await log.topic("0", "events")
        assert await log.topics(stream_name) == ()


@pytest.mark.parametrize("name", ["a", "é" * 127, "with blank", "a/b", "../x", "CON", "日本語", "a" * 255, "٣"])
async def test_names_of_all_kinds(iggy: OpenIggy, stream_name: str, name: str) -> None:
    async with _open(iggy.url) as log:
        info = await log.ensure_topic(stream_name, name, TopicConfig(1))
        assert info.name == name
        await log.append(stream_name, name, [_record(b"payload")], key="key")
        page = await log.read(stream_name, name, 0, start=0, limit=1)
        assert [record.payload for record in page.records] == [b"payload"]
        assert name in [info.name for info in await log.topics(stream_name)]


# --------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (NewRecord(1, b""), "records"),
        (NewRecord(1, bytes(64_000_001)), "records"),
        (NewRecord(2**128, b"x"), "records"),
        (NewRecord(1, b"x", b"damaged"), "headers"),
        (NewRecord(1, b"x", encode_block([Header(b"n", 15, struct.pack("<d", math.nan))])), "headers"),
        (NewRecord(1, b"x", encode_block([Header(b"n", 2, b"\xff")])), "headers"),
    ],
)
async def test_a_record_that_iggy_cannot_hold_is_refused(
    iggy: OpenIggy, stream_name: str, record: NewRecord, reason: str
) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))
        with pytest.raises(InvalidError) as caught:
            await log.append(stream_name, "events", [_record(), record], key="key")
        assert caught.value.argument == reason
        info = await log.topic(stream_name, "events")
        assert info is not None
        assert info.records == 0


async def test_a_batch_that_one_request_cannot_carry_is_refused(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))
        with pytest.raises(LimitError, match="records") as caught:
            await log.append(stream_name, "events", [_record(bytes(32_000_001)), _record(bytes(32_000_000))], key="k")
        assert caught.value.limit == 64_000_000
        largest = await log.append(stream_name, "events", [_record(bytes(64_000_000), b"")], key="k")
        page = await log.read(stream_name, "events", 0, start=0, limit=5)
        assert [(record.offset, len(record.payload)) for record in page.records] == [(largest.offsets[0], 64_000_000)]


async def test_more_partitions_than_iggy_has_are_refused(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(2))
        with pytest.raises(LimitError, match="would have 1001") as caught:
            await log.add_partitions(stream_name, "events", 999)
        assert (caught.value.size, caught.value.limit) == (1001, 1000)


# -------------------------------------------------------------------------------------------- foreign records


async def test_records_of_other_programs_come_through(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))
        client = await _raw(iggy.url)
        send = client.send_messages
        await send(stream_name, "events", 0, [SendMessage(b"\xa1\xff\0"), SendMessage(b"x", {"other": 1})])
        await send(stream_name, "events", 0, [SendMessage(b"x", {"gen_ai.conversation.id": "no id"})])
        await send(stream_name, "events", 0, [SendMessage(b"x", {"gen_ai.conversation.id": _CONV.lower()})])
        await send(stream_name, "events", 0, [SendMessage(b"x", {"gen_ai.conversation.id": _CONV[:-1] + "W"})])
        await send(stream_name, "events", 0, [SendMessage(b"x", {"gen_ai.conversation.id": 7})])
        await log.append(stream_name, "events", [_record()], key="key")
        window = await log.window(stream_name, "events", WindowQuery(Match(_CONV)))
        assert window is not None
        assert [record.offset for record in window.records] == [0, 1, 2, 3, 5, 6]
        assert window.records[0].payload == b"\xa1\xff\0"
        assert [record.headers == b"" for record in window.records] == [True, False, False, False, False, False]
        page = await log.read(stream_name, "events", 0, start=0, limit=10)
        assert [record.offset for record in page.records] == list(range(7))
        assert all(record.id for record in page.records), "Iggy's client gives every record an id"


@pytest.fixture(scope="module")
def http_server() -> Iterator[_Http]:
    """A server that also takes HTTP: it stores headers that the binary client refuses to send."""
    if find_server_binary() is None:
        pytest.skip("no iggy-server program to start with HTTP: put it on the PATH or into LASER_TEST_IGGY_SERVER")
    (port,) = free_ports(1)
    env = {
        "IGGY_HTTP_ENABLED": "true",
        "IGGY_HTTP_ADDRESS": f"127.0.0.1:{port}",
        "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "1s",
    }
    with IggyServer(env=env) as server:
        server.process.wait_for("server HTTP listener started", timeout=60)
        yield _Http(server, port)


class _Http:
    def __init__(self, server: IggyServer, port: int) -> None:
        self.url = server.url
        self._base = f"http://127.0.0.1:{port}"
        login = {"username": server.username, "password": server.password}
        self._token = self._post("/users/login", login)["access_token"]["token"]

    def _post(self, path: str, body: object) -> Any:
        headers = {"content-type": "application/json"}
        if path != "/users/login":
            headers["authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._base + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def send(self, stream: str, topic: str, payload: bytes, key: bytes, kind: str, value: bytes) -> None:
        header = {"key": {"kind": "string", "value": _b64(key)}, "value": {"kind": kind, "value": _b64(value)}}
        message = {"id": next(_ids), "payload": _b64(payload), "user_headers": [header]}
        partitioning = {"kind": "partition_id", "value": _b64(struct.pack("<I", 0))}
        self._post(f"/streams/{stream}/topics/{topic}/messages", {"partitioning": partitioning, "messages": [message]})


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
async def test_a_header_that_is_not_a_number_hides_nothing(http_server: _Http, stream_name: str, number: float) -> None:
    async with _open(http_server.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))
        await log.append(stream_name, "events", [_record(b"before")], key="key")
        for key in (b"agdx.cost", b"other"):
            await anyio.to_thread.run_sync(
                http_server.send, stream_name, "events", b"bad", key, "float64", struct.pack("<d", number)
            )
        await log.append(stream_name, "events", [_record(b"after")], key="key")
        for _ in range(3):  # the engine may read in another way once it knows the server
            page = await log.read(stream_name, "events", 0, start=0, limit=10)
            assert [record.payload for record in page.records] == [b"before", b"bad", b"bad", b"after"]
            window = await log.window(stream_name, "events", WindowQuery(Match(_CONV)))
            assert window is not None
            assert [record.payload for record in window.records] == [b"before", b"bad", b"bad", b"after"]
            for record in window.records[1:3]:
                with pytest.raises(ProvenanceError):
                    decode_provenance(record.headers)


# ---------------------------------------------------------------------------------------- retention and identity


async def test_retention_moves_the_first_offset(http_server: _Http, stream_name: str) -> None:
    async with _open(http_server.url) as log:
        keep = TopicRetention(expire_after=timedelta(seconds=1), max_size=4 << 20)
        info = await log.ensure_topic(stream_name, "events", TopicConfig(1, keep))
        assert info.retention == keep
        for number in range(12):
            await log.append(stream_name, "events", [_record(b"%d" % number + bytes(300_000))], key="key")
        with anyio.fail_after(60):
            while (part := await _part(log, stream_name)).first == 0:
                await anyio.sleep(0.1)
        assert part.end == 12
        page = await log.read(stream_name, "events", 0, start=0, limit=100)
        assert [record.offset for record in page.records] == list(range(page.first, 12))
        assert page.first >= part.first > 0
        window = await log.window(stream_name, "events", WindowQuery(Match(_CONV), starts={0: 0}))
        assert window is not None
        assert [record.offset for record in window.records] == list(range(page.first, 12))
        assert (await log.append(stream_name, "events", [_record()], key="key")).offsets == (12,)


async def _info(log: IggyLog, stream: str) -> TopicInfo:
    info = await log.topic(stream, "events")
    assert info is not None
    return info


async def _part(log: IggyLog, stream: str) -> PartitionInfo:
    return (await _info(log, stream)).partitions[0]


async def test_a_size_that_iggy_cannot_keep_to_is_refused(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        with pytest.raises(UnsupportedError, match="max_size"):
            await log.ensure_topic(stream_name, "events", TopicConfig(1, TopicRetention(max_size=1_000_000)))
        assert await log.topics(stream_name) == ()


async def test_what_tells_a_purged_or_recreated_topic(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        made = await log.ensure_topic(stream_name, "events", TopicConfig(1))
        for _ in range(5):
            await log.append(stream_name, "events", [_record()], key="key")
        await log.purge(stream_name, "events")
        purged = await log.topic(stream_name, "events")
        assert purged is not None
        assert purged.created_at_micros == made.created_at_micros, "Iggy does not tell a purge by the creation time"
        assert (purged.partitions[0].first, purged.partitions[0].end) == (0, 0), "but by offsets that are gone"
        await log.delete_topic(stream_name, "events")
        again = await log.ensure_topic(stream_name, "events", TopicConfig(1))
        assert again.created_at_micros > made.created_at_micros
        assert again.partitions[0].created_at_micros > made.partitions[0].created_at_micros


async def test_a_topic_made_anew_with_fewer_partitions_is_noticed_by_appends(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as one, _open(iggy.url) as two:
        await one.ensure_topic(stream_name, "events", TopicConfig(8))
        keys = [f"key-{number}" for number in range(12)]
        for key in keys:
            await two.append(stream_name, "events", [_record()], key=key)
        await one.delete_topic(stream_name, "events")
        await one.ensure_topic(stream_name, "events", TopicConfig(1))
        for number, key in enumerate(keys):
            done = await two.append(stream_name, "events", [_record()], key=key)
            assert (done.partition, done.offsets) == (0, (number,))


# ---------------------------------------------------------------------------------------- options of other servers


def test_durabilities_follow_what_the_server_lists() -> None:
    edge = frozenset({"enforce_fsync", "messages_required_to_save", "segment_size"})
    newer = frozenset({"durability", "messages_required_to_save"})
    for keys in (edge, newer):
        assert durabilities_of(keys) == ("memory", "process", "power")
        assert default_of(keys) == "power"
    assert default_of(frozenset({"messages_required_to_save"})) == "process"
    assert durabilities_of(frozenset()) == ("memory",)
    assert default_of(frozenset()) == "memory"
    with pytest.raises(UnsupportedError, match="'power'"):
        creation(Target("s", "t"), TopicConfig(1, durability="power"), frozenset())
    with pytest.raises(UnsupportedError, match="message_expiry"):
        creation(Target("s", "t"), TopicConfig(1, TopicRetention(expire_after=timedelta(days=1))), edge)


@pytest.mark.parametrize(
    ("options", "durability"),
    [
        ({}, None),
        ({"messages_required_to_save": 1024, "enforce_fsync": False}, "memory"),
        ({"messages_required_to_save": 1024, "enforce_fsync": True}, "memory"),
        ({"messages_required_to_save": 1, "enforce_fsync": False}, "process"),
        ({"messages_required_to_save": 1, "enforce_fsync": True}, "power"),
        ({"durability": "persisted", "messages_required_to_save": 1024}, "power"),
        ({"durability": "replicated", "messages_required_to_save": 1}, "memory"),
    ],
)
def test_the_durability_is_read_from_a_topics_options(options: dict[str, object], durability: str | None) -> None:
    assert durability_of(options) == durability


async def test_the_servers_own_refusal_of_a_new_option_is_got_around(iggy: OpenIggy, stream_name: str) -> None:
    client = await _raw(iggy.url)
    await client.create_stream(stream_name)
    keys = {spec.key for spec in await client.describe_options("topic")}
    if "durability" in keys:
        pytest.skip("this server takes every option that the client sends")
    with pytest.raises(RuntimeError, match="Unsupported option key"):
        await client.create_topic(stream_name, "events", 2)
    async with _open(iggy.url) as log:
        info = await log.ensure_topic(stream_name, "events", TopicConfig(2, durability="power"))
        assert (len(info.partitions), info.durability) == (2, "power")


# ------------------------------------------------------------------------------------------- loops and processes


def test_on_trio_it_says_what_to_do() -> None:
    config, _ = parse_iggy_url("iggy://u:p@127.0.0.1:1")

    async def main() -> None:
        with pytest.raises(UnsupportedError, match="asyncio only"):
            await open_iggy_log(config, timeout=1)

    anyio.run(main, backend="trio")


async def test_another_loop_and_a_forked_child_are_refused(iggy: OpenIggy, stream_name: str) -> None:
    async with _open(iggy.url) as log:
        await log.ensure_topic(stream_name, "events", TopicConfig(1))

        def elsewhere() -> str:
            with pytest.raises(ClosedError) as caught:
                anyio.run(log.topic, stream_name, "events")
            return str(caught.value)

        assert "another event loop" in await anyio.to_thread.run_sync(elsewhere)
        child = os.fork()
        if child == 0:
            try:
                log._home.check()
            except ClosedError as error:
                os._exit(0 if "forked" in str(error) else 3)
            os._exit(4)
        _, status = await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        await log.append(stream_name, "events", [_record()], key="key")


def _write(url: str, stream: str, process: int, results: Any) -> None:
    async def main() -> None:
        placed: list[tuple[int, int, bytes]] = []
        async with _open(url) as log:
            await log.ensure_topic(stream, "events", TopicConfig(4))

            async def task(number: int) -> None:
                for turn in range(20):
                    payload = b"%d.%d:%d" % (process, number, turn)
                    record = NewRecord(int.from_bytes(os.urandom(16), "big") | 1, payload)
                    done = await log.append(stream, "events", [record], key=f"key-{process}-{number}")
                    placed.append((done.partition, done.offsets[0], payload))

            async with anyio.create_task_group() as group:
                for number in range(8):
                    group.start_soon(task, number)
        results.put(placed)

    anyio.run(main)


async def test_four_processes_with_eight_tasks_each_lose_nothing(iggy: OpenIggy, stream_name: str) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_write, args=(iggy.url, stream_name, number, results)) for number in range(4)]
    for worker in workers:
        worker.start()
    placed = [entry for _ in workers for entry in await anyio.to_thread.run_sync(results.get, True, 200)]
    for worker in workers:
        await anyio.to_thread.run_sync(worker.join)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert len(placed) == 4 * 8 * 20
    held: list[tuple[int, int, bytes]] = []
    async with _open(iggy.url) as log:
        for partition in range(4):
            page = await log.read(stream_name, "events", partition, start=0, limit=10_000)
            assert [record.offset for record in page.records] == list(range(page.end))
            held += [(partition, record.offset, record.payload) for record in page.records]
    assert sorted(placed) == held
    for process in range(4):
        for task in range(8):
            own = [payload for _, _, payload in held if payload.startswith(b"%d.%d:" % (process, task))]
            assert own == [b"%d.%d:%d" % (process, task, turn) for turn in range(20)]


@pytest.mark.parametrize("end", ["await log.aclose()", "pass", "asyncio.get_running_loop().create_task(waste())"])
async def test_the_interpreter_ends_cleanly(iggy: OpenIggy, stream_name: str, end: str) -> None:
    code = textwrap.dedent(f"""
        import asyncio
        from laser.engines.iggy import open_iggy_log, parse_iggy_url
        from laser.model.records import NewRecord
        from laser.model.topics import TopicConfig

        async def main():
            log = await open_iggy_log(parse_iggy_url({iggy.url!r})[0], timeout=60)

            async def waste():
                await asyncio.gather(*[
                    log.append({stream_name!r}, "events", [NewRecord(number + 1, b"x")], key=str(number))
                    for number in range(50)
                ])

            await log.ensure_topic({stream_name!r}, "events", TopicConfig(2))
            await waste()
            {end}

        asyncio.run(main())
    """)

    def run() -> tuple[int, str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        return done.returncode, done.stderr

    for _ in range(5):
        assert await anyio.to_thread.run_sync(run) == (0, "")
