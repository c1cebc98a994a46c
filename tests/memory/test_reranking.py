"""A second look by a model: what it is shown, and that its failure costs nothing."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import laser as ls
from laser.memory.redaction import redact
from tests.memory.making import Judge, texts
from tests.properties import examples

pytestmark = pytest.mark.anyio

TEXTS = ("tea with lemon", "tea with milk", "green tea", "tea time", "black tea")


async def _filled(laser: ls.Laser) -> list[str]:
    memory = laser.memory("n")
    for text in TEXTS:
        await memory.remember(text)
    return texts(await memory.search("tea"))


async def test_its_order(memory_laser: ls.Laser) -> None:
    usual = await _filled(memory_laser)
    judge = Judge("milk")
    memory = memory_laser.memory_with("n", rerank=ls.Rerank(judge, top_k=3))
    found = await memory.search("tea")
    assert texts(found) == ["tea with milk", *[text for text in usual if text != "tea with milk"][:2]]
    assert (found[0].score, found[0].signals["rerank"]) == (1.0, 1.0)
    assert "keyword" in found[0].signals
    assert (judge.query, judge.texts) == ("tea", usual)
    assert len(await memory.search("tea", limit=2)) == 2
    scoped = memory_laser.context(ls.new_conversation_id()).memory_with("n", rerank=ls.Rerank(judge))
    assert await scoped.search("tea") == []


async def test_only_the_best_are_shown(memory_laser: ls.Laser) -> None:
    usual = await _filled(memory_laser)
    judge = Judge(usual[3].split()[-1])
    memory = memory_laser.memory_with("n", rerank=ls.Rerank(judge, top_k=10, candidate_limit=2))
    assert sorted(texts(await memory.search("tea"))) == sorted(usual[:2])
    assert judge.texts == usual[:2]


async def test_where_it_is_not_asked(memory_laser: ls.Laser) -> None:
    await _filled(memory_laser)
    judge = Judge("milk")
    memory = memory_laser.memory_with("n", rerank=ls.Rerank(judge))
    await memory.recall()
    await memory.recall("tea", strategy="recent")
    await memory.recall("tea", strategy="temporal")
    await memory.recall("tea", folded=True)
    await memory.search("nothing like it")
    assert judge.query == ""


class _Acts:
    def __init__(self, act: Any) -> None:
        self.act = act

    async def rerank(self, query: str, texts: Sequence[str]) -> Any:
        result = self.act(texts)
        return await result if hasattr(result, "__await__") else result


def _raise(texts: Sequence[str]) -> None:
    raise RuntimeError(f"server said: {texts}")


BROKEN = {
    "raises": _raise,
    "late": lambda texts: anyio.sleep_forever(),
    "one too few": lambda texts: [1.0] * (len(texts) - 1),
    "one too many": lambda texts: [1.0] * (len(texts) + 1),
    "not a number": lambda texts: [float("nan")] * len(texts),
    "infinite": lambda texts: [float("inf")] * len(texts),
    "text": lambda texts: ["high"] * len(texts),
    "nothing": lambda texts: None,
    "times out itself": lambda texts: (_ for _ in ()).throw(TimeoutError()),
}


@pytest.mark.parametrize("act", BROKEN.values(), ids=BROKEN.keys())
async def test_a_failure_keeps_the_usual_answer(
    memory_laser: ls.Laser, act: Any, caplog: pytest.LogCaptureFixture
) -> None:
    usual = await _filled(memory_laser)
    memory = memory_laser.memory_with("n", rerank=ls.Rerank(_Acts(act), top_k=1, candidate_limit=3, timeout=0.05))
    with caplog.at_level(logging.WARNING, "laser.memory"):
        found = await memory.search("tea")
    assert texts(found) == usual
    assert all("rerank" not in item.signals for item in found)
    assert "the usual order is kept" in caplog.text
    assert "tea" not in caplog.text


async def test_cancelling_a_recall_is_no_failure_of_the_reranker(memory_laser: ls.Laser) -> None:
    await _filled(memory_laser)
    memory = memory_laser.memory_with("n", rerank=ls.Rerank(_Acts(lambda _: anyio.sleep_forever()), timeout=60))
    with anyio.move_on_after(0.05) as scope:
        await memory.search("tea")
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    ("named", "argument"),
    [
        ({"reranker": object()}, "reranker"),
        ({"top_k": -1}, "top_k"),
        ({"candidate_limit": 1.5}, "candidate_limit"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": True}, "timeout"),
    ],
)
def test_refusals(named: dict[str, Any], argument: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        ls.Rerank(**{"reranker": Judge("x"), **named})
    assert caught.value.argument == argument


# ---------------------------------------------------------------------------------------------- redaction

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nAAAA+/==\n-----END OPENSSH PRIVATE KEY-----"
# Put together here, so that no scanner of this repository takes them for real ones.
SECRETS = {
    "OpenAI": "sk-" + "proj-Ab3dEf6hIj9lMn2pQr5t",
    "Anthropic": "sk-" + "ant-api03-Ab3dEf6hIj9lMn2pQr5t_xyz",
    "Stripe": "sk" + "_live_Ab3dEf6hIj9lMn2pQr5t",
    "GitHub": "gh" + "p_Ab3dEf6hIj9lMn2pQr5tUv8xYz1",
    "GitHub, fine": "github" + "_pat_Ab3dEf6hIj9lMn2pQr5tUv8xYz1",
    "GitLab": "gl" + "pat-Ab3dEf6hIj9lMn2pQr5t",
    "Slack": "xo" + "xb-123456789012-Ab3dEf6hIj9l",
    "AWS": "AK" + "IAIOSFODNN7EXAMPLE",
    "Google": "AI" + "zaSyAb3dEf6hIj9lMn2pQr5tUv8xYz1Bc4e",
    "npm": "npm" + "_Ab3dEf6hIj9lMn2pQr5tUv8xYz1Bc4eFg7",
    "Hugging Face": "hf" + "_Ab3dEf6hIj9lMn2pQr5tUv",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9"
    + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "private key": KEY,
    "card": "4111 1111 1111 1111",
    "card without spaces": "5555555555554444",
    "card with dashes": "3782-822463-10005",
    "card of 13": "4222222222222",
}
NAMED = {
    "password: {}": "hunter22",
    "my password is {}": "hunter22",
    "DB_PASSWORD={}": "s3cr3t-Pass",
    'dbPassword = "{}"': "with spaces in it",
    "api_key='{}'": "abcd",
    "client-secret: {}": "x" * 9_000,
    '{{"token": "{}"}}': "abc.def",
    "Authorization: Bearer {}": "mF_9.B5f-4.1JqM",
    "authorization: Basic {}": "dXNlcjpwYXNz",
    "curl -H 'Authorization: {}'": "opaque",
    "bearer {}": "abcdefgh12345678",
    "postgresql://ann:{}@db.example/app": "abc",
    "https://ann:{}@db.example": "p/a@ss",
    "redis://:{}@cache:6379/0": "topsecret",
}
PLAIN = [
    "passwords are hard to remember",
    "see http://localhost:8080/path?x=1",
    "order 1234 5678 9012 3456",
    "call +49 30 1234567 or 030/1234567",
    "a basic idea and the bearer of news",
    "task-force and risk-averse skills",
    "2026-11-30T10:54:14.123456Z",
    "uuid 01234567-89ab-cdef-0123-456789abcdef",
    "0000000000000000",
    "",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
@pytest.mark.parametrize("around", ["{}", "use {} here", "key={}", "({})", "a\n{}\nb", "é {}", "{} 12/27", "12 {} 123"])
def test_secrets_by_their_form(secret: str, around: str) -> None:
    said = redact(around.format(secret))
    assert secret not in said
    assert "[redacted]" in said


@pytest.mark.parametrize(("around", "secret"), NAMED.items())
def test_secrets_by_their_name(around: str, secret: str) -> None:
    said = redact(f"before {around.format(secret)} after")
    assert secret not in said
    assert said.startswith("before ")
    assert said.endswith(" after")


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@examples(200)
@given(st.text(max_size=40), st.sampled_from(sorted(SECRETS.values())), st.text(max_size=40))
def test_anything_around_a_secret(before: str, secret: str, after: str) -> None:
    assert secret not in redact(f"{before} {secret} {after}")


@examples(100)
@given(st.text())
def test_any_text(text: str) -> None:
    assert isinstance(redact(text), str)


@pytest.mark.parametrize(
    "unit",
    ["a-", "a_", "password ", "password:'", "a1://b:", "sk-", "eyJa.", "1 ", "4444 ", "-----BEGIN ", "A", "bearer  "],
)
def test_hostile_texts_take_no_long_time(unit: str) -> None:
    began = time.thread_time()
    redact(unit * (200_000 // len(unit)))
    assert time.thread_time() - began < 3


async def test_what_a_reranker_sees(memory_laser: ls.Laser) -> None:
    memory = memory_laser.memory("n")
    for number, secret in enumerate(SECRETS.values()):
        await memory.remember(f"tea {number}: {secret}")
    for around, secret in NAMED.items():
        await memory.remember(f"tea {around.format(secret)} end")
    long = "tea " + "word " * 3_275 + "password=hunter2222222222222222 tail"
    await memory.remember(long)
    judge = Judge("tea")
    asked = memory_laser.memory_with("n", rerank=ls.Rerank(judge, top_k=100, candidate_limit=100))
    found = await asked.search("tea for " + SECRETS["OpenAI"], limit=100)
    assert len(judge.texts) == len(SECRETS) + len(NAMED) + 1
    shown = "\n".join([judge.query, *judge.texts])
    for secret in [*SECRETS.values(), *(one for one in NAMED.values() if len(one) > 3)]:
        assert secret not in shown
    assert "hunter2222" not in shown
    assert max(map(len, judge.texts)) <= 16_384 + len("[redacted]")
    # What the caller gets is what was remembered.
    assert any(KEY in item.text for item in found)
