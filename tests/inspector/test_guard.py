"""Who is let in, and what browsers are told."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

import laser as ls
from laser.inspector import make_app
from laser.inspector.guard import HEADERS, Guard
from tests.inspector.making import HOST, TOKEN, browse, fill

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine_url", ["memory"], indirect=True)]


def check_headers(answer: httpx2.Response) -> None:
    for name, value in HEADERS:
        assert answer.headers.get_list(name.decode()) == [value.decode()]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert "unsafe" not in policy
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/", "", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"//{TOKEN}/", "/style.css", f"/x/{TOKEN}/", f"/?token={TOKEN}",
        f"/{TOKEN.upper()}/", "/ä/", "/%00/",
    ],
)  # fmt: skip
async def test_without_the_token(laser: ls.Laser, path: str) -> None:
    async with browse(laser) as client:
        answer = await client.get(f"http://{HOST}{path}", headers={"cookie": f"token={TOKEN}", "authorization": TOKEN})
    assert (answer.status_code, answer.content) == (403, b"")
    check_headers(answer)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:80", f"{HOST}.evil.example", f"x@{HOST}", ""]
)
async def test_other_names_of_this_machine(laser: ls.Laser, host: str) -> None:
    """What a page of elsewhere would say after its name was made to point here."""
    async with browse(laser) as client:
        answer = await client.get(f"/{TOKEN}/", headers={"host": host})
        assert (answer.status_code, answer.content) == (403, b"")
        check_headers(answer)
        assert (await client.get(f"/{TOKEN}/", headers={"host": HOST.upper()})).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "get"])
async def test_only_get(laser: ls.Laser, method: str) -> None:
    """A browser asks OPTIONS before a page of elsewhere may do more than GET."""
    async with browse(laser) as client:
        request = client.build_request("GET", f"/{TOKEN}/")
        request.method = method
        answer = await client.send(request)
    assert (answer.status_code, answer.content, answer.headers["allow"]) == (405, b"", "GET")
    assert not [name for name in answer.headers if name.startswith("access-control")]


async def test_headers_everywhere(laser: ls.Laser) -> None:
    filled = await fill(laser, turns=6)
    async with browse(laser) as client:
        paths = ["", "style.css", f"s/{filled.main}/transcript", "nothing", "?limit=x", f"open?id={filled.main}"]
        for path in paths:
            answer = await client.get(f"/{TOKEN}/{path}")
            check_headers(answer)
            assert "set-cookie" not in answer.headers


async def test_what_a_fault_shows(laser: ls.Laser) -> None:
    """A fault of the program is told to the terminal, not to the page."""
    await laser.aclose()
    async with browse(laser) as client:
        answer = await client.get(f"/{TOKEN}/")
    assert answer.status_code == 503
    assert "closed" in answer.text
    check_headers(answer)


async def test_two_hosts_and_other_protocols(laser: ls.Laser) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read of what is refused")

    app = make_app(laser, TOKEN, [HOST])
    host = (b"host", HOST.encode())
    scope = {"type": "http", "method": "GET", "path": f"/{TOKEN}/", "headers": [host, host], "query_string": b""}
    await app(scope, receive, send)
    assert sent[0]["status"] == 403
    sent.clear()
    await app({"type": "websocket", "path": f"/{TOKEN}/", "headers": [host]}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_tokens(laser: ls.Laser) -> None:
    for token in ("", "short", "with/slash" * 3, "with space" * 3, "ä" * 20):
        with pytest.raises(ls.InvalidError) as refused:
            make_app(laser, token, [HOST])
        assert not token or token not in str(refused.value)
    assert TOKEN not in repr(Guard(make_app(laser, TOKEN, [HOST]), TOKEN, frozenset([HOST])))
