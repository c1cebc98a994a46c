"""What memory's tests share: an embedder, a reranker, records by hand, and what views and folds say."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

import laser as ls
from laser.memory.fold import MemoryFold
from laser.model.ids import ulid_text
from laser.model.memory import FactMark, Forgotten, MemoryChange, MemoryOwner, Remembered, Weighed
from laser.ports.memory_view import MemoryView

TOPIC = "agent.memory"
C1, C2 = ls.derive_conversation_id("one"), ls.derive_conversation_id("two")
NAMESPACES = ("stream:s/n", "stream:s/n2")
NEVER_OVER = -1

_SAME = {"automobile": "car", "vehicle": "car", "feline": "cat", "kitten": "cat", "residence": "home"}


class HashEmbedder:
    """Words as places in a vector, synonyms as one word: enough meaning for a test, and the same at every run."""

    def __init__(self, model: str = "hash-64", dimensions: int = 64) -> None:
        self.model = model
        self.dimensions = dimensions
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in text.lower().split():
            plain = word.strip(".,:!?")
            vector[zlib.crc32(_SAME.get(plain, plain).encode()) % self.dimensions] += 1.0
        return vector


class Judge:
    """A reranker that likes texts with a word in them, and keeps what it was shown."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.query = ""
        self.texts: list[str] = []

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        self.query, self.texts = query, list(texts)
        return [1.0 if self.word in text else 0.5 / (place + 1) for place, text in enumerate(texts)]


def texts(items: Sequence[ls.MemoryItem]) -> list[str]:
    """The texts of items, in their order."""
    return [item.text for item in items]


# ---------------------------------------------------------------------------------------------- records by hand

# User, agent, application and text of items, few enough to come twice.
PLAIN = (
    (None, None, None, "alpha beta"),
    ("u1", None, None, "Ann: beta gamma"),
    ("u1", "g", "a", "alpha alpha delta"),
    ("u10", None, None, "Ann: beta gamma"),
    ("u10", "g", None, "私は東京"),
    (None, None, "a", ""),
)
WEIGHTS = (0.5, -1.0, 1e30, -1e30)
KEYS = ("k", "k1")


@st.composite
def changes(draw: st.DrawFn) -> list[MemoryChange]:
    """Records on two partitions whose clock stands still, goes on and steps back.

    The id of a plain item says what it is and whose, as that of an item remembered by its content does; facts and
    summaries have ids of their own.
    """
    offsets, found = [0, 0], []
    ids: list[str] = []
    for number in range(draw(st.integers(0, 18))):
        partition, at = draw(st.integers(0, 1)), draw(st.integers(1, 4))
        place = (at, partition, offsets[partition])
        offsets[partition] += 1
        namespace, where = NAMESPACES[draw(st.integers(0, 4)) == 4], draw(st.sampled_from([C1, C2]))
        within = draw(st.none() | st.just(where))
        what = draw(st.sampled_from(["item", "item", "fact", "summary", "feedback", "forget"]))
        if what == "item":
            which = draw(st.integers(0, len(PLAIN) - 1))
            user, agent, app, body = PLAIN[which]
            ids.append(ulid_text(1_000 + which))
            owner = MemoryOwner(namespace, where, agent, user, app)
            found.append(Remembered(ids[-1], "message", body.encode(), owner, *place))
        elif what == "fact":
            ids.append(ulid_text(10 + number))
            owner = MemoryOwner(namespace, where, None, draw(st.sampled_from([None, "u1"])))
            mark = FactMark(draw(st.sampled_from(KEYS)), "engine", draw(st.none() | st.integers(1, 9)))
            body = f"{mark.key}: {draw(st.sampled_from(['alpha', 'beta gamma']))}"
            found.append(Remembered(ids[-1], "fact", body.encode(), owner, *place, fact=mark))
        elif what == "summary":
            sources = tuple(draw(st.lists(st.sampled_from(ids), max_size=3))) if ids else ()
            ids.append(ulid_text(10 + number))
            owner = MemoryOwner(namespace, where, None, draw(st.sampled_from([None, "u1"])))
            found.append(Remembered(ids[-1], "summary", b"beta sum", owner, *place, durable=True, sources=sources))
        else:
            target = draw(st.sampled_from([*ids, ulid_text(11), ulid_text(13), ulid_text(1_001)]))
            owner = MemoryOwner(namespace, where)
            if what == "feedback":
                found.append(Weighed(target, draw(st.sampled_from(WEIGHTS)), within, owner, *place))
            else:
                found.append(Forgotten(target, within, owner, *place, pruned=draw(st.booleans())))
    return found


OWNERS = [
    MemoryOwner(namespace, where, agent, user, app)
    for namespace in NAMESPACES
    for where, agent, user, app in (
        (None, None, None, None),
        (C1, None, None, None),
        (None, None, "u1", None),
        (C2, None, "u10", None),
        (None, "g", None, "a"),
        (None, None, "u", None),
    )
]


async def said_by_view(view: MemoryView, now: int) -> list[Any]:
    """Everything that can be asked of a view, but for what depends on words."""
    said: list[Any] = []
    for owner in OWNERS:
        for by_feedback in (False, True):
            found = await view.recent(owner, 1_000, now, by_feedback=by_feedback)
            said.append([(entry.item, entry.weight) for entry in found])
    return said


async def said_by_fold(fold: MemoryFold, now: int) -> list[Any]:
    """The same of a fold."""
    ways = [(owner, by_feedback) for owner in OWNERS for by_feedback in (False, True)]
    return [await fold.recall(owner, None, 1_000, now, by_feedback=by_feedback) for owner, by_feedback in ways]


def as_items(said: list[Any]) -> list[Any]:
    """What a view says, as a fold says it."""
    return [
        [
            ls.MemoryItem.of(
                item,
                weight,
                weight if place % 2 else None,
                {"feedback": weight} if place % 2 and weight is not None else {},
            )
            for item, weight in entries
        ]
        for place, entries in enumerate(said)
    ]


async def words_of(view: MemoryView, now: int, owners: Sequence[MemoryOwner] = tuple(OWNERS)) -> list[Any]:
    """What a view finds by words, with the scores, without the numbers of its rows."""
    said: list[Any] = []
    for owner in owners:
        for query in ("beta", "alpha delta", "what did Ann say of gamma", "東京", "京", "á"):
            found = await view.keyword(owner, query, 1_000, now)
            said.append(sorted((entry.score, entry.item.id, entry.item.owner.conversation or "") for entry in found))
    return said
