"""Objects in S3: the conformance suite against a real server, and what is its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from laser.engines.objects import open_s3_objects
from laser.engines.objects.config import parse_s3_url
from laser.errors import AuthenticationError, ConfigError, NotFoundError, TransportError
from laser.ports.objects import Objects
from laser.testing import ObjectsConformance
from laser.testing.s3_server import S3Server

pytestmark = pytest.mark.anyio

KEY = "0123456789abcdef" * 2 + "/01M8P2H6GS2AJ33AGTW0R65B8E"
CANARY = "c4n4ry-s3cret"


class TestS3Objects(ObjectsConformance):
    @pytest.fixture(autouse=True)
    def _server(self, s3_server: S3Server) -> None:
        self.url = s3_server.url

    @asynccontextmanager
    async def open_objects(self) -> AsyncIterator[Objects]:
        store = await open_s3_objects(self.url)
        try:
            yield store
        finally:
            await store.aclose()


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield each


@pytest.fixture
def own(s3_server: S3Server) -> S3Server:
    if not s3_server.own:
        pytest.skip("the server is not this run's own")
    return s3_server


async def test_a_prefix_keeps_stores_apart(own: S3Server) -> None:
    one, two = [await open_s3_objects(own.url.replace("?", f"/{name}/deep?")) for name in ("a", "b")]
    await one.put(KEY, chunks(b"x"))
    with pytest.raises(NotFoundError):
        await two.get(KEY, 0, 1)
    assert (own.bucket / "a" / "deep" / KEY).read_bytes() == b"x"


async def test_an_interrupted_upload_of_parts_leaves_nothing(own: S3Server) -> None:
    def left() -> list[Path]:
        return [path for path in (own.directory / "data" / ".nanio").rglob("*") if path.is_file()]

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield bytes(1_000_000)
        assert left(), "parts must be on the server by now"
        raise ValueError

    store = await open_s3_objects(own.url)
    with pytest.raises(ValueError):
        await store.put(KEY.replace("E", "F"), broken())
    assert left() == []


async def test_wrong_keys(own: S3Server) -> None:
    store = await open_s3_objects(own.url.replace(own.password, CANARY))
    for call in (store.get(KEY, 0, 1), store.put(KEY, chunks(b"x")), store.delete([KEY])):
        with pytest.raises(AuthenticationError) as caught:
            await call
        assert CANARY not in str(caught.value) + repr(caught.value.__cause__) + repr(store)


async def test_keys_from_the_environment(own: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "laser")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", own.password)
    store = await open_s3_objects(own.url.replace(f"laser:{own.password}@", ""))
    await store.put(KEY.replace("E", "G"), chunks(b"x"))
    assert await store.get(KEY.replace("E", "G"), 0, 1) == b"x"


async def test_a_bucket_that_is_not_there(own: S3Server) -> None:
    store = await open_s3_objects(own.url.replace("@laser-test", "@no-such-bucket"))
    with pytest.raises(ConfigError, match="bucket does not exist"):
        await store.put(KEY, chunks(b"x"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_is_not_there() -> None:
    store = await open_s3_objects(f"s3://id:{CANARY}@bucket?endpoint=http://127.0.0.1:1", timeout=1.0)
    with anyio.fail_after(60):
        for call in (store.get(KEY, 0, 1), store.put(KEY, chunks(bytes(1_000))), store.delete([KEY])):
            with pytest.raises(TransportError) as caught:
                await call
            assert CANARY not in str(caught.value)
            assert "Debug source" not in str(caught.value)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_dies_in_an_upload() -> None:
    with S3Server() as server:
        store = await open_s3_objects(server.url, timeout=5.0)

        async def data() -> AsyncIterator[bytes]:
            for number in range(60):
                if number == 30:
                    await anyio.to_thread.run_sync(server.kill)
                yield bytes(1_000_000)

        with anyio.fail_after(90), pytest.raises(TransportError) as caught:
            await store.put(KEY, data())
        assert caught.value.retryable
        await anyio.to_thread.run_sync(server.start)
        with pytest.raises(NotFoundError):
            await store.get(KEY, 0, 1)
        await store.put(KEY, chunks(b"x"))


@pytest.mark.parametrize(
    "url",
    [
        f"s3://id:{CANARY}@",
        f"s3://id:{CANARY}@Bad_Bucket",
        f"s3://{CANARY}@bucket",
        f"s3://id:{CANARY}@bucket/../up",
        f"s3://id:{CANARY}@bucket/a//b",
        f"s3://id:{CANARY}@bucket#{CANARY}",
        f"s3://id:{CANARY}@bucket?no_such={CANARY}",
        f"s3://id:{CANARY}@bucket?endpoint=ftp://{CANARY}",
        f"s3://id:{CANARY}@bucket?endpoint=http://u:{CANARY}@host",
        f"s3://id:{CANARY}@bucket?region={CANARY}!",
        f"s3://id:{CANARY}@bucket?virtual_hosted=maybe",
        f"s3://id:{CANARY}@bucket:port",
        f"s4://id:{CANARY}@bucket",
    ],
)
def test_bad_urls(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^objects: ") as caught:
        parse_s3_url(url)
    assert CANARY not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def test_a_url_and_its_parts() -> None:
    config = parse_s3_url("s3://i%2Fd:s%3Ae%40c@my-bucket/a/b/?endpoint=https://h:9&region=eu-1&virtual_hosted=true")
    assert (config.key_id, config.secret, config.bucket, config.prefix) == ("i/d", "s:e@c", "my-bucket", "a/b")
    assert (config.endpoint, config.region, config.virtual_hosted) == ("https://h:9", "eu-1", True)
    assert "s:e@c" not in repr(config)
    assert "s:e@c" not in config.address
