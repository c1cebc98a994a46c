"""Memory through the public API, the same on every engine."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest

import laser as ls
from laser.model.records import LogRecord
from laser.wire.memory_reading import decode_memory
from tests.context.logs import put_raw
from tests.memory.making import C1, C2, TOPIC, HashEmbedder, texts

pytestmark = pytest.mark.anyio

Strategy = Literal["auto", "recent", "keyword", "semantic", "hybrid", "graph", "temporal"]


async def records(laser: ls.Laser) -> list[LogRecord]:
    """All records of the memory topic, by partition."""
    log = laser.open_log()
    info = await log.topic(laser.stream, TOPIC)
    assert info is not None
    pages = [await log.read(laser.stream, TOPIC, part.id, start=0, limit=1_000) for part in info.partitions]
    return [record for page in pages for record in page.records]


async def test_remembered_is_recalled(laser: ls.Laser) -> None:
    memory = laser.memory("notes")
    assert await memory.recall() == []
    first = await memory.remember("the deploy key is in the vault", agent="ops", user="u1", application="app")
    second = await memory.remember(b"\xff\x00 raw", kind="message", conversation=C1, producer=("notes", "1"))
    newest, oldest = await memory.recall()
    assert (newest.id, newest.kind, newest.body, newest.conversation) == (second, "message", b"\xff\x00 raw", C1)
    assert newest.text == "\ufffd\x00 raw"
    assert newest.producer == {"name": "notes", "version": "1"}
    assert (oldest.id, oldest.agent, oldest.user, oldest.app) == (first, "ops", "u1", "app")
    assert (oldest.score, oldest.weight, oldest.signals) == (None, None, {})
    assert oldest.created_at_micros <= newest.created_at_micros
    assert await memory.get(first) == oldest
    assert await memory.get(ls.new_conversation_id()) is None
    (found,) = await memory.search("where is the deploy key?")
    assert found.id == first
    assert set(found.signals) == {"keyword", "recency"}
    assert found.score is not None
    assert await memory.search("nothing of the kind") == []
    assert texts(await memory.recall(limit=1)) == [newest.text]
    assert await memory.recall(limit=0) == []
    assert texts(await laser.memory("notes").recall(folded=True)) == [newest.text, oldest.text]


async def test_what_one_conversation_learnt_is_found_in_the_next(laser: ls.Laser) -> None:
    one, two = laser.context(C1), laser.context(C2)
    known = await one.memory("notes").remember("Ann likes green tea")
    await two.memory("notes").remember("Bob likes coffee")
    assert texts(await two.memory("notes").recall()) == ["Bob likes coffee"]
    assert texts(await two.memory("notes").handle.search("green tea")) == ["Ann likes green tea"]
    scoped = two.memory("notes")
    assert (scoped.conversation, scoped.handle.namespace) == (C2, "notes")
    assert await scoped.get(known) is None
    await scoped.forget(known)
    await scoped.improve(known, 5.0)
    (item,) = await one.memory("notes").recall()
    assert (item.id, item.weight) == (known, None)
    assert await two.memory(one.memory("notes").handle).recall(limit=9) == await scoped.recall(limit=9)
    assert await scoped.block(query="coffee") == "Bob likes coffee"
    assert repr(scoped) == f"ScopedMemory('notes', conversation='{C2}')"


@pytest.mark.parametrize("folded", [False, True])
async def test_a_write_is_read_at_once(laser: ls.Laser, folded: bool) -> None:
    memory, other = laser.memory("n"), laser.memory("n")
    for number in range(40):
        item = await memory.remember(f"note {number}")
        assert [one.id for one in await other.recall(limit=1, strategy="recent", folded=folded)] == [item]
        if number % 5 == 4:
            await other.forget(item)
            assert item not in [one.id for one in await memory.recall(limit=100, folded=folded)]
    assert len(await memory.recall(limit=100, folded=folded)) == 32


async def test_the_same_content_is_one_item(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    item = await memory.remember("tea", dedup=True, conversation=C1)
    assert await memory.remember(b"tea", dedup=True, conversation=C1) == item
    assert await memory.remember("tea", dedup=True, conversation=C2) == item
    others = [
        await memory.remember("tea", dedup=True, **named)
        for named in ({"user": "u1"}, {"user": "u10"}, {"agent": "u1"}, {"application": "u1"}, {"kind": "message"})
    ]
    assert len({item, *others}) == 6
    for folded in (False, True):
        assert len(await memory.recall(folded=folded)) == 6
        for where in (C1, C2):
            (one,) = await memory.recall(conversation=where, folded=folded)
            assert (one.id, one.conversation) == (item, where)
        # Across conversations it is the one that was there first.
        assert {one.conversation for one in await memory.recall(folded=folded) if one.id == item} == {C1}


async def test_feedback_adds_up_and_moves_items(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    ids = [await memory.remember(f"tea number {number}", conversation=C1) for number in range(4)]
    note = await memory.improve(ids[0], 1.5, note="asked for twice")
    assert note != ids[0]
    await memory.improve(ids[0], 0.25, conversation=C1)
    await memory.improve(ids[1], -1.0)
    await memory.improve(ids[2], 9.0, conversation=C2)
    for folded in (False, True):
        found = await memory.recall(folded=folded)
        assert [one.id for one in found] == [ids[0], ids[3], ids[2], ids[1]]
        assert [one.weight for one in found] == [1.75, None, None, -1.0]
        assert [one.score for one in found] == [1.75, None, None, -1.0]
        assert found[0].signals == {"feedback": 1.75}
        by_time = await memory.recall(strategy="recent", folded=folded)
        assert [one.id for one in by_time] == ids[::-1]
        assert {one.score for one in by_time} == {None}
    ranked = await memory.search("tea")
    assert (ranked[0].id, ranked[-1].id) == (ids[0], ids[1])
    assert ranked[0].signals["feedback"] == 1.75
    await memory.improve(ids[1], 100.0)
    assert (await memory.search("tea"))[0].id == ids[1]


async def test_recall_by_meaning(laser: ls.Laser) -> None:
    embedder = HashEmbedder()
    memory = laser.memory_with("n", embedder=embedder)
    for text in ("my car is red", "the cat sleeps", "a quiet residence", "nothing else"):
        await memory.remember(text, conversation=C1)
    semantic = await memory.recall("automobile", strategy="semantic", limit=2)
    assert semantic[0].text == "my car is red"
    assert semantic[0].signals["semantic"] > 0.4
    assert await memory.search("automobile") == []
    hybrid = await memory.recall("red automobile")
    assert hybrid[0].text == "my car is red"
    assert {"keyword", "semantic", "recency"} <= set(hybrid[0].signals)
    assert texts(hybrid) == texts(await memory.recall("red automobile", strategy="hybrid"))
    assert texts(hybrid) == texts(await memory.recall(semantic="red automobile"))
    asked = len(embedder.asked)
    assert (await laser.memory_with("n", "vector", embedder=embedder).recall("feline"))[0].text == "the cat sleeps"
    assert len(embedder.asked) == asked + 1, "each item gets its vector once"
    # A vector that was made before the item was forgotten is of no use afterwards.
    await memory.forget(semantic[0].id)
    assert "my car is red" not in texts(await memory.recall("automobile", strategy="semantic"))
    await memory.remember("another vehicle")
    assert (await memory.recall("automobile", strategy="semantic"))[0].text == "another vehicle"


async def test_vectors_of_another_length(memory_laser: ls.Laser) -> None:
    memory = memory_laser.memory_with("n", embedder=HashEmbedder())
    await memory.remember("car")
    await memory.recall("car")
    other = memory_laser.memory_with("n", embedder=HashEmbedder(dimensions=32))
    with pytest.raises(ls.InvalidError, match="another version of a model needs another name"):
        await other.recall("car")
    renamed = memory_laser.memory_with("n", embedder=HashEmbedder("hash-32", 32))
    assert texts(await renamed.recall("automobile")) == ["car"]

    class Short(HashEmbedder):
        async def embed(self, texts: Any) -> list[list[float]]:
            return (await super().embed(texts))[1:]

    await memory.remember("cat")
    with pytest.raises(ls.InvalidError, match="gave 0 vectors for 1 texts"):
        await memory_laser.memory_with("n", embedder=Short()).recall("cat")
    await memory.recall("cat")
    with pytest.raises(ls.InvalidError, match="gave 0 vectors for 1 texts"):
        await memory_laser.memory_with("n", embedder=Short()).recall("nothing lacks a vector but the question")


async def test_the_best_matches_newest_first(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for text in ("tea tea tea", "coffee", "tea with milk and sugar", "tea"):
        await memory.remember(text)
    found = await memory.recall("tea", strategy="temporal")
    assert texts(found) == ["tea", "tea with milk and sugar", "tea tea tea"]
    times = [one.created_at_micros for one in found]
    assert times == sorted(times, reverse=True)


async def test_names_that_a_graph_relates(laser: ls.Laser) -> None:
    await laser.graph("people").link("Person:Ann", "works_at", "Company:Acme")
    memory = laser.memory_with("n", graph="people")
    await memory.remember("Acme moved to Oslo")
    await memory.remember("the weather is fine")
    assert await memory.search("where is Ann?") == []
    assert texts(await memory.recall("where is Ann?", strategy="graph")) == ["Acme moved to Oslo"]
    long = "é" * 5_000
    assert texts(await memory.recall(f"where is {long} or Ann?", strategy="graph")) == ["Acme moved to Oslo"]
    scoped = laser.context(C1).memory_with("n", graph="people")
    assert await scoped.recall("where is Ann?", strategy="graph") == []


SCRIPTS = {
    "Chinese": ("我喜欢吃北京烤鸭", ["北京", "烤鸭", "鸭", "吃北京"], ["上海", "牛"]),
    "Japanese": ("私は東京に住んでいます", ["東京", "住んで", "東", "ます"], ["大阪", "コーヒー"]),
    "katakana": ("コーヒーを飲む", ["コーヒー", "飲む"], ["紅茶"]),
    "Thai": ("ฉันชอบกินข้าวผัดกุ้ง", ["กุ้ง", "ข้าวผัด", "กิน"], ["ปลา"]),
    "Lao": ("ຂ້ອຍມັກກິນເຂົ້າ", ["ເຂົ້າ", "ກິນ"], ["ປາ"]),
    "Khmer": ("ខ្ញុំចូលចិត្តបាយ", ["បាយ"], ["ឆ្កែ"]),
    "Burmese": ("ကျွန်တော်ထမင်းစားသည်", ["ထမင်း"], ["ငါး"]),
    "mixed": ("meeting 会議 at 3pm", ["会議", "meeting", "3pm"], ["電話"]),
    "Korean": ("저는 김치를 좋아해요", ["김치를"], ["밥"]),
    "Cyrillic": ("Я люблю зелёный чай", ["чай", "ЧАЙ", "я"], ["кофе", "ч", "л"]),
    "words of one letter": ("il va à la gare", ["à", "gare"], ["é", "ġ"]),
    "Devanagari": ("मुझे हिन्दी भाषा पसंद है", ["हिन्दी", "भाषा"], ["चाय", "भ", "हिन"]),
    "Hebrew": ("שָׁלוֹם עוֹלָם", ["שלום", "שָׁלוֹם"], ["לום"]),
    "Arabic": ("السَّلَامُ عَلَيْكُم", ["السلام", "عليكم"], ["سلم"]),
    "Tamil": ("நான் தமிழ் பேசுகிறேன்", ["தமிழ்"], ["த"]),
    "accents apart": ("re\u0301sume\u0301 of x\u0302y", ["résumé", "resume", "xy"], ["sum"]),
    "letters newer than the index": ("word \u1c80\u1c81 and a\u1c82b", ["\u1c80\u1c81", "a\u1c82b"], ["\u1c83"]),
}


@pytest.mark.parametrize(("text", "found", "absent"), SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_scripts(memory_laser: ls.Laser, text: str, found: list[str], absent: list[str]) -> None:
    memory = memory_laser.memory("n")
    await memory.remember("something else in plain English")
    await memory.remember(text)
    for query in found:
        assert texts(await memory.search(query)) == [text], query
    for query in absent:
        assert await memory.search(query) == [], query


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "hello*",
        "hello AND (",
        "NEAR(hello)",
        "\0",
        "hello:first",
        ":1",
        "@ann",
        "~1",
        "-hello",
        "\ud7ff",
        "ี่",
        "''",
        "̈",
    ],
)
async def test_a_question_is_words_and_no_language_of_the_index(memory_laser: ls.Laser, query: str) -> None:
    memory = memory_laser.memory("n")
    await memory.remember("Ann: hello", user="u1")
    await memory.remember("Bob: secret", user="u2")
    for user in ("u1", "u2"):
        found = texts(await memory.search(query, user=user))
        assert found == (["Ann: hello"] if user == "u1" and query.strip("(-*").lower().find("hello") >= 0 else found)
        assert {one.user for one in await memory.search(query, user=user)} <= {user}


async def test_a_long_question(memory_laser: ls.Laser) -> None:
    memory = memory_laser.memory("n")
    for number in range(30):
        await memory.remember(" ".join(f"w{number // 2 * 100 + place}" for place in range(100)))
    await memory.remember("w5 rare")
    question = " ".join(f"w{number}" for number in range(1_500)) + " rare " + "x" * 100_000
    with anyio.fail_after(120):
        found = await memory.search(question)
    assert "w5 rare" in texts(found)


async def test_block(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    assert await memory.block() == ""
    for text in ("a" * 8, "b" * 9, "c" * 4):
        await memory.remember(text, user="u1")
    await memory.remember("theirs", user="u2")
    assert await memory.block(user="u1") == "cccc\n\nbbbbbbbbb\n\naaaaaaaa"
    # 1, 3 and 2 tokens.
    assert await memory.block(6, user="u1") == await memory.block(user="u1")
    assert await memory.block(5, user="u1") == "cccc\n\nbbbbbbbbb\n\n[... 1 more recalled item(s) omitted ...]"
    assert await memory.block(3, user="u1") == "cccc\n\n[... 2 more recalled item(s) omitted ...]"
    assert await memory.block(0, user="u1") == "cccc\n\n[... 2 more recalled item(s) omitted ...]"
    assert await memory.block(9, query="aaaaaaaa", user="u1", limit=2) == "aaaaaaaa"


async def test_rebuild(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    for number in range(30):
        item = await memory.remember(f"note {number} of {number % 7}", conversation=(C1, C2, None)[number % 3])
        await memory.improve(item, number % 5)
        if number % 4 == 0:
            await memory.forget(item)
    await put_raw(laser, TOPIC, C1, (b"", b"noise"))
    before = [await memory.recall(limit=100), await memory.recall("note 3", limit=100, strategy="keyword")]
    seen: list[ls.CatchUpProgress] = []
    assert await memory.rebuild(seen.append) == 30 + 30 + 8 + 1
    assert (seen[-1].read, seen[-1].total) == (69, 69)
    assert memory.skipped[0].topic == TOPIC
    after = [await memory.recall(limit=100), await memory.recall("note 3", limit=100, strategy="keyword")]
    assert before[0] == after[0] == await memory.recall(limit=100, folded=True)
    assert [one.id for one in before[1]] == [one.id for one in after[1]]


async def test_a_view_that_was_folded_anew_orders_alike(laser: ls.Laser) -> None:
    """Also what scores the same: a view numbers items as it meets them, partition by partition."""
    memory = laser.memory_with("n", embedder=HashEmbedder())
    for number in range(12):
        await memory.remember("green tea", conversation=ls.derive_conversation_id(str(number)))
        await memory.recall("tea")
    newest = [item.id for item in await memory.recall(strategy="recent")]
    for _ in range(2):
        for strategy in ("keyword", "semantic", "hybrid", "temporal"):
            assert [item.id for item in await memory.recall("tea", strategy=strategy)] == newest, strategy
        await memory.rebuild()


async def test_foreign_records_are_skipped_and_counted(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    await memory.remember("good")
    (good,) = await records(laser)
    bad = [
        (b"", b"noise"),
        (good.headers, b"noise"),
        (good.headers, b"\xa1dItem\xa0"),
        (good.headers, good.payload + b"\0"),
    ]
    await put_raw(laser, TOPIC, C1, *bad)
    await memory.remember("also good")
    for folded in (False, True):
        assert texts(await memory.recall(folded=folded)) == ["also good", "good"]
    assert len(memory.skipped) == len(bad)
    assert {one.topic for one in memory.skipped} == {TOPIC}


async def test_topics_that_are_purged_and_made_anew(laser: ls.Laser) -> None:
    memory = laser.memory("n")
    item = await memory.remember("old")
    assert len(await memory.recall()) == 1
    await laser.purge_topic(TOPIC)
    for folded in (False, True):
        assert await memory.recall(folded=folded) == []
    await memory.remember("new")
    for folded in (False, True):
        assert texts(await memory.recall(folded=folded)) == ["new"]
    await laser.delete_topic(TOPIC)
    for folded in (False, True):
        assert await memory.recall(folded=folded) == []
    await memory.forget(item)
    await memory.remember("newest")
    await laser.add_partitions(TOPIC, 3)
    for number in range(10):
        await memory.remember(f"wide {number}")
    for folded in (False, True):
        assert len(await memory.recall(folded=folded)) == 11
    assert all(isinstance(decode_memory(record).at_micros, int) for record in await records(laser))  # type: ignore[union-attr]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "limit": ({"limit": -1}, "limit"),
    "limit of another type": ({"limit": True}, "limit"),
    "too many": ({"limit": 10_001}, "limit"),
    "strategy": ({"strategy": "best"}, "strategy"),
    "query": ({"query": b"x"}, "query"),
    "half a character": ({"query": "x\udc88"}, "query"),
    "half a character, folded": ({"query": "x\udc88", "folded": True}, "query"),
    "two queries": ({"query": "x", "semantic": "y"}, "semantic"),
    "user": ({"user": ""}, "user"),
    "agent": ({"agent": "a\nb"}, "agent"),
    "application": ({"application": 7}, "application"),
    "conversation": ({"conversation": "no"}, "conversation_id"),
}


@pytest.mark.parametrize(("named", "argument"), BAD.values(), ids=BAD.keys())
async def test_refusals_of_recall(memory_laser: ls.Laser, named: dict[str, Any], argument: str) -> None:
    with pytest.raises(ls.InvalidError) as caught:
        await memory_laser.memory("n").recall(**named)
    assert caught.value.argument == argument


async def test_refusals_of_writes(memory_laser: ls.Laser) -> None:
    memory = memory_laser.memory("n")
    item = await memory.remember("x")
    before = len(await records(memory_laser))
    calls: dict[str, Any] = {
        "payload": lambda: memory.remember({"a": 1}),  # type: ignore[arg-type]
        "payload ": lambda: memory.remember("\udc88"),
        "kind": lambda: memory.remember("x", kind="Fact"),  # type: ignore[arg-type]
        "producer": lambda: memory.remember("x", producer=("a", "\udc88")),
        "producer ": lambda: memory.remember("x", producer=("a", "b", "c")),  # type: ignore[arg-type]
        "user": lambda: memory.remember("x", user="u" * 256),
        "id": lambda: memory.forget("nothing"),
        "id ": lambda: memory.improve("nothing", 1),
        "weight": lambda: memory.improve(item, float("nan")),
        "weight ": lambda: memory.improve(item, float("inf")),
        "weight  ": lambda: memory.improve(item, 1e39),
        "weight   ": lambda: memory.improve(item, True),
        "note": lambda: memory.improve(item, 1, note=""),
        "max_items": lambda: memory.consolidate(-1),
        "token_budget": lambda: memory.block(-1),
        "conversation": memory.clear,
    }
    for argument, call in calls.items():
        with pytest.raises(ls.InvalidError) as caught:
            await call()
        assert caught.value.argument == argument.strip(), argument
    assert len(await records(memory_laser)) == before


async def test_refusals_of_handles(memory_laser: ls.Laser) -> None:
    for namespace in ("", "stream:x/y", "a\0b", "n" * 250):
        with pytest.raises(ls.InvalidError) as caught:
            memory_laser.memory(namespace)
        assert caught.value.argument == "namespace"
    for named, argument in (
        ({"backend": "kv"}, "backend"),
        ({"backend": "vector"}, "embedder"),
        ({"embedder": object()}, "embedder"),
        ({"rerank": object()}, "rerank"),
    ):
        with pytest.raises(ls.InvalidError) as caught:
            memory_laser.memory_with("n", **named)  # type: ignore[arg-type]
        assert caught.value.argument == argument
    memory = memory_laser.memory("n")
    for strategy in ("semantic", "hybrid", "graph"):
        with pytest.raises(ls.UnsupportedError, match=strategy):
            await memory.recall("x", strategy=strategy)  # type: ignore[arg-type]
    assert repr(memory) == "Memory('n')"


async def test_the_log_backend_and_clients_that_were_closed(laser: ls.Laser) -> None:
    memory = laser.memory_with("n", "log")
    first = await memory.remember("a b")
    await memory.remember("c")
    await memory.improve(first, 1)
    assert (await memory.recall())[0].id == first
    assert await memory.recall("b") == await memory.recall("b", folded=True)
    await laser.aclose()
    with pytest.raises(ls.ClosedError):
        await memory.recall()
    with pytest.raises(ls.ClosedError):
        await memory.remember("x")
