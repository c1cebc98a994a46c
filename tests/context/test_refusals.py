"""Bad input: one typed error that names the argument, and nothing written, created or read."""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import laser as ls
from laser.compaction.active import strategy_compactor
from laser.testing.summarizers import NotingSummarizer
from tests.context.folding import ListStore, count
from tests.context.logs import SESSIONS, ends

pytestmark = pytest.mark.anyio

A = ls.derive_conversation_id("a")
B = ls.derive_conversation_id("b")

Call = Callable[[ls.Laser], Awaitable[Any]]
Case = tuple[str, Call, type[Exception], str | None]

NAMES: list[Any] = ["", " ", " x", "x ", "a\nb", "a\0", "\x7f", "a\u0085", "7", "٣", "\ud800", None, 5, b"x", ["x"]]
LONG_NAMES = ["x" * 256, "é" * 128]
COUNTS: list[Any] = [-1, 1.0, 1.5, math.nan, True, "3", [3]]


def _many(argument: str, error: type[Exception], values: list[Any], call: Callable[[ls.Laser, Any], Any]) -> list[Case]:
    return [
        (f"{argument}={value!r:.40}", lambda one, value=value: call(one, value), error, argument) for value in values
    ]


def _scope(one: ls.Laser) -> ls.ContextScope:
    return one.context(A)


APPENDS: list[Case] = [
    *_many("topic", ls.InvalidError, NAMES, lambda one, value: _scope(one).append(value, b"x")),
    *_many("topic", ls.LimitError, LONG_NAMES, lambda one, value: _scope(one).append(value, b"x")),
    *_many("topic", ls.InvalidError, NAMES, lambda one, value: _scope(one).append_many(value, [b"x"])),
    *_many(
        "payload", ls.InvalidError, ["\ud83d", "a\udc88", None, 5, {"a": 1}, [b"x"]],
        lambda one, value: _scope(one).append(SESSIONS, value),
    ),
    *_many(
        "agent", ls.InvalidError, ["", "a\nb", "a\0", "\x7f", "a\u0085", "\ud83d", 5, ["a"], b"a", {}],
        lambda one, value: _scope(one).append(SESSIONS, b"x", agent=value),
    ),
    *_many(
        "agent", ls.InvalidError, ["", "a\nb", 5, ["a"]],
        lambda one, value: _scope(one).append(SESSIONS, b"x", agent=value, provenance=ls.Provenance()),
    ),
    *_many(
        "agent", ls.LimitError, ["x" * 256, "é" * 128],
        lambda one, value: _scope(one).append(SESSIONS, b"x", agent=value),
    ),
    *_many(
        "agent", ls.InvalidError, ["other"],
        lambda one, value: _scope(one).append(SESSIONS, b"x", agent=value, provenance=ls.Provenance(agent="a")),
    ),
    *_many(
        "provenance", ls.InvalidError, [5, "x", {"agent": "a"}, ls.Provenance(conversation_id=B)],
        lambda one, value: _scope(one).append(SESSIONS, b"x", provenance=value),
    ),
    *[
        (
            f"provenance.{field}={value!r:.40}",
            lambda one, field=field, value=value: _scope(one).append(
                SESSIONS, b"x", provenance=ls.Provenance(**{field: value})
            ),
            ls.InvalidError,
            field,
        )
        for field, value in [
            ("conversation_id", "x"), ("parent_conversation_id", "x"), ("root_conversation_id", "8" * 26),
            ("causal_parent", "1"), ("target_agent_id", ""), ("idempotency_key", "a\nb"), ("correlation_id", "x" * 256),
            ("deadline_micros", -1), ("fence_token", 2**64), ("input_tokens", 1.5), ("output_tokens", True),
            ("cost_usd", math.nan), ("agent", ""), ("target_agent_id", ["a"]), ("fence_token", [1]),
        ]
    ],
    (
        "provenance over 1,024 bytes",
        lambda one: _scope(one).append(
            SESSIONS, b"x",
            provenance=ls.Provenance(
                agent="x" * 255, target_agent_id="x" * 255, idempotency_key="x" * 255, correlation_id="x" * 255
            ),
        ),
        ls.LimitError,
        "provenance",
    ),
    *_many(
        "id", ls.InvalidError, [0, -1, 2**128, 1.0, True, "7", b"7"],
        lambda one, value: _scope(one).append(SESSIONS, b"x", id=value),
    ),
    *_many(
        "payloads", ls.InvalidError, ["text", b"bytes", 5, None, {"a": 1}, iter([b"x"])],
        lambda one, value: _scope(one).append_many(SESSIONS, value),
    ),
    *_many(
        "payloads", ls.InvalidError, [[b"ok", None], [b"ok", "\ud83d"], [b"ok", 5]],
        lambda one, value: _scope(one).append_many(SESSIONS, value),
    ),
    *_many(
        "payloads", ls.LimitError, [[b""] * 10_001],
        lambda one, value: _scope(one).append_many(SESSIONS, value),
    ),
    *_many(
        "ids", ls.InvalidError,
        [[1], [1, 1], [1, 2, 3], [], [0, 1], [1, 2**128], [1, "2"], [1, [2]], 5, "12", iter([1, 2]), {1, 2}],
        lambda one, value: _scope(one).append_many(SESSIONS, [b"a", b"b"], ids=value),
    ),
    ("absent topic", lambda one: _scope(one).append("absent", b"x"), ls.NotFoundError, None),
    ("absent topic, many", lambda one: _scope(one).append_many("absent", [b"x"]), ls.NotFoundError, None),
]  # fmt: skip

CHECKPOINT = ls.Checkpoint({SESSIONS: {0: 0}})

READS: list[Case] = [
    *_many("n", ls.InvalidError, COUNTS, lambda one, value: _scope(one).fetch(n=value)),
    *_many("n", ls.InvalidError, COUNTS, lambda one, value: _scope(one).block(n=value)),
    *_many("token_budget", ls.BudgetError, COUNTS, lambda one, value: _scope(one).fetch(token_budget=value)),
    *_many(
        "topics", ls.InvalidError, [SESSIONS, 5, b"x", [5], [None], [""], ["7"], ["x", "a\nb"], ["x" * 256]],
        lambda one, value: _scope(one).fetch(topics=value),
    ),
    *_many("topics", ls.InvalidError, [SESSIONS, [""]], lambda one, value: _scope(one).fetch(topics=value, n=0)),
    *_many("topics", ls.InvalidError, [SESSIONS, [5]], lambda one, value: _scope(one).checkpoint(value)),
    *_many("last_n", ls.InvalidError, COUNTS, lambda one, value: one.assemble_context(A, last_n=value)),
    *_many("token_budget", ls.BudgetError, COUNTS, lambda one, value: one.assemble_context(A, token_budget=value)),
    *_many("roles", ls.InvalidError, ["a", 5, [5], [None]], lambda one, value: one.assemble_context(A, roles=value)),
    *_many("policy", ls.InvalidError, [5, ls.LastN], lambda one, value: one.assemble_context(A, policy=value)),
    *[
        (f"policy with {name}", lambda one, extra=extra: one.assemble_context(A, policy=ls.LastN(1), **extra),
         ls.InvalidError, "policy")
        for name, extra in [
            ("last_n", {"last_n": 1}), ("roles", {"roles": []}), ("token_budget", {"token_budget": 0}),
            ("all", {"last_n": 1, "roles": ["a"], "token_budget": 5}),
        ]
    ],
    *_many(
        "from_offsets", ls.InvalidError,
        [5, [0], {0: -1}, {0: 2**64}, {-1: 0}, {2**32: 0}, {"0": 0}, {0: "0"}, {0: 1.0}, {True: 0}, {0: True}],
        lambda one, value: one.assemble_context(A, from_offsets=value),
    ),
    *_many(
        "from_checkpoint", ls.InvalidError, [5, {}, CHECKPOINT.to_json()],
        lambda one, value: one.assemble_context(A, from_checkpoint=value),
    ),
    *_many(
        "to_checkpoint", ls.InvalidError, [5, {}, CHECKPOINT.to_json()],
        lambda one, value: one.assemble_context(A, to_checkpoint=value),
    ),
    *_many(
        "conversation_id", ls.IdError, ["", "x", A + "0", "8" + A[1:], A[:-1] + "U", None, 5],
        lambda one, value: one.assemble_context(value),
    ),
]  # fmt: skip

TOPICS: list[Case] = [
    *_many("name", ls.InvalidError, NAMES, lambda one, value: one.ensure_topic(value)),
    *_many("name", ls.LimitError, LONG_NAMES, lambda one, value: one.ensure_topic(value)),
    *_many("name", ls.InvalidError, NAMES, lambda one, value: one.topic(value)),
    *_many("partitions", ls.InvalidError, [0, 1_001, *COUNTS], lambda one, value: one.ensure_topic("new", value)),
    *_many(
        "durability", ls.InvalidError, ["", "disk", "PROCESS", 5, ["power"]],
        lambda one, value: one.ensure_topic("new", durability=value),
    ),
    *_many("retention", ls.InvalidError, [5, "30d", 30.0], lambda one, value: one.ensure_topic("new", retention=value)),
    *_many("retention", ls.InvalidError, [None, 5, ls.TopicRetention()], lambda one, value: one.bootstrap(4, value)),
    *_many(
        "partitions", ls.InvalidError, [0, 1_001, *COUNTS],
        lambda one, value: one.bootstrap(value, ls.TopicRetention(max_size=10**9)),
    ),
    *_many("count", ls.InvalidError, [0, 1_001, *COUNTS], lambda one, value: one.add_partitions(SESSIONS, value)),
    ("topic", lambda one: one.topic("absent"), ls.NotFoundError, None),
    ("add_partitions", lambda one: one.add_partitions("absent", 1), ls.NotFoundError, None),
    ("purge_topic", lambda one: one.purge_topic("absent"), ls.NotFoundError, None),
    ("delete_topic", lambda one: one.delete_topic("absent"), ls.NotFoundError, None),
]  # fmt: skip


async def _complaint(laser: ls.Laser, case: Case) -> str | None:
    what, call, wanted, argument = case
    try:
        result = await call(laser)
    except ls.LaserError as error:
        if not isinstance(error, wanted):
            return f"{what}: {type(error).__name__} instead of {wanted.__name__}: {error}"
        if argument is not None:
            if getattr(error, "argument", None) != argument:
                return f"{what}: names {getattr(error, 'argument', None)!r} instead of {argument!r}: {error}"
            if argument not in str(error):
                return f"{what}: the text does not name {argument}: {error}"
        if len(str(error)) > 1_000 or error.retryable:
            return f"{what}: {len(str(error))} characters, retryable {error.retryable}"
        return None
    except Exception as error:
        return f"{what}: not typed: {error!r}"
    return f"{what}: accepted: {result!r}"


@pytest.mark.parametrize("cases", [APPENDS, READS, TOPICS], ids=["appends", "reads", "topics"])
async def test_refusals_name_the_argument_and_write_nothing(laser: ls.Laser, cases: list[Case]) -> None:
    await laser.context(A).append(SESSIONS, b"before")
    before = await ends(laser)
    complaints = [await _complaint(laser, case) for case in cases]
    assert [complaint for complaint in complaints if complaint] == []
    assert await ends(laser) == before
    await laser.context(A).append(SESSIONS, b"after")
    assert await laser.context(A).block() == "before\nafter"


async def test_an_absent_topic_is_named_with_its_stream_and_the_way_out(laser: ls.Laser) -> None:
    with pytest.raises(ls.NotFoundError, match="bootstrap") as caught:
        await laser.context(A).append("absent", b"x")
    assert (caught.value.stream, caught.value.topic) == (laser.stream, "absent")
    assert "absent" in str(caught.value)
    assert laser.stream in str(caught.value)


async def test_limits_carry_their_numbers(laser: ls.Laser) -> None:
    with pytest.raises(ls.LimitError) as caught:
        await laser.context(A).append("x" * 256, b"x")
    assert (caught.value.argument, caught.value.size, caught.value.limit) == ("topic", 256, 255)
    with pytest.raises(ls.LimitError) as caught:
        await laser.context(A).append_many(SESSIONS, [b""] * 10_001)
    assert (caught.value.argument, caught.value.size, caught.value.limit) == ("payloads", 10_001, 10_000)


async def test_a_place_in_a_batch_is_named(laser: ls.Laser) -> None:
    with pytest.raises(ls.InvalidError, match=r"payloads\[2\]"):
        await laser.context(A).append_many(SESSIONS, [b"a", b"b", "\ud800"])
    with pytest.raises(ls.InvalidError, match=r"ids\[1\]"):
        await laser.context(A).append_many(SESSIONS, [b"a", b"b"], ids=[1, -1])


@pytest.mark.parametrize("value", ["", "x", A + "0", "8" + A[1:], A[:-1] + "U", A[:-1] + "\n", None, 5, A.encode()])
async def test_bad_conversation_ids_are_refused_without_io(memory_laser: ls.Laser, value: Any) -> None:
    with pytest.raises(ls.IdError) as caught:
        memory_laser.context(value)
    assert caught.value.argument == "conversation_id"


async def test_d11_after_closing_every_call_says_so(engine_url: str, stream_name: str) -> None:
    laser = await ls.Laser.connect(engine_url, stream=stream_name)
    scope = laser.context(A)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(laser.aclose)
        tasks.start_soon(laser.aclose)
    await laser.aclose()
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: scope.append(SESSIONS, b"x"),
        lambda: scope.append_many(SESSIONS, [b"x"]),
        lambda: scope.fetch(),
        lambda: scope.block(),
        lambda: scope.checkpoint(),
        lambda: laser.assemble_context(A),
        lambda: laser.topics(),
        lambda: laser.ensure_topic("x"),
        lambda: ls.context_checkpoint(laser, [SESSIONS]),
    ]
    for call in calls:
        with pytest.raises(ls.ClosedError):
            await call()


class _Silent:
    def __repr__(self) -> str:
        raise RuntimeError("has no text")


def _nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize("value", [_nested(), 10**5_000, _Silent(), "y" * 70_000], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("topics", lambda one, value: _scope(one).fetch(topics=value)),
        ("agents", lambda one, value: _scope(one).fetch_with([SESSIONS], ls.RoleFilter(value))),
        ("id", lambda one, value: _scope(one).append(SESSIONS, b"x", id=value)),
        ("from_offsets", lambda one, value: one.assemble_context(A, from_offsets=value)),
        ("partitions", lambda one, value: one.ensure_topic("new", value)),
        ("count", lambda one, value: one.add_partitions(SESSIONS, value)),
        ("durability", lambda one, value: one.ensure_topic("new", 1, durability=value)),
        ("weight", lambda one, value: one.memory("m").improve(A, value)),
        ("timeout", lambda one, value: ls.Laser.connect("memory:", timeout=value)),
        ("content", lambda one, value: _scope(one).append(SESSIONS, b"x", content=value)),
        ("resolve", lambda one, value: _scope(one).fetch(resolve=value)),
        ("resolve", lambda one, value: _scope(one).fetch_with([SESSIONS], ls.LastN(1), resolve=value)),
    ],
)  # fmt: skip
async def test_an_error_shows_little_of_what_was_given(
    memory_laser: ls.Laser, argument: str, call: Callable[[ls.Laser, Any], Any], value: Any
) -> None:
    """Also where it has no text, or one without end."""
    await memory_laser.ensure_topic(SESSIONS)
    with pytest.raises(ls.InvalidError) as caught:
        await call(memory_laser, value)
    assert len(str(caught.value)) < 250
    assert caught.value.argument is not None
    assert argument in str(caught.value)


@pytest.mark.parametrize("value", [7, "print", [print]], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda one, value: _scope(one).state([SESSIONS], 0, count, full=True, progress=value),
        lambda one, value: _scope(one).state([SESSIONS], 0, count, last_n=1, progress=value),
        lambda one, value: _scope(one).state_with(ListStore(), [SESSIONS], 0, count, progress=value),
        lambda one, value: ls.ConversationState.load(one, A, [SESSIONS], 0, count, full=True, progress=value),
        lambda one, value: one.memory("m").rebuild(value),
        lambda one, value: one.graph("g").rebuild(value),
        lambda one, value: one.compaction(A).compact("rolling", progress=value),
        lambda one, value: strategy_compactor(NotingSummarizer(), progress=value),
    ],
    ids=["full", "last_n", "state_with", "load", "memory", "graph", "compact", "compactor"],
)
async def test_progress_is_a_function(memory_laser: ls.Laser, call: Callable[[ls.Laser, Any], Any], value: Any) -> None:
    await memory_laser.ensure_topic(SESSIONS)
    await _scope(memory_laser).append(SESSIONS, b"x")
    before = await ends(memory_laser)
    with pytest.raises(ls.InvalidError, match=r"^progress: .* is not a function; give one") as caught:
        await call(memory_laser, value)
    assert caught.value.argument == "progress"
    assert await ends(memory_laser) == before


@pytest.mark.parametrize("value", [None, 7, b"{}", {"conversation": A}, ls.Snapshot], ids=repr)
async def test_only_snapshots_are_saved(memory_laser: ls.Laser, value: Any) -> None:
    await memory_laser.ensure_topic(ls.AgentTopic.Snapshots)
    own = ListStore()
    stores: list[ls.TopicSnapshotStore | ls.KvSnapshotStore | ls.SnapshotStore] = [
        ls.TopicSnapshotStore(memory_laser, "f"),
        ls.KvSnapshotStore(memory_laser, "f"),
        ls.SnapshotStore(own),
    ]
    for store in stores:
        with pytest.raises(ls.InvalidError, match=r"^snapshot: expected a Snapshot") as caught:
            await store.save(value)
        assert caught.value.argument == "snapshot"
    with pytest.raises(ls.InvalidError, match=r"^snapshot: expected a Snapshot"):
        await ls.checkpoint_from_snapshot(memory_laser, value, [SESSIONS])
    assert own.kept == []
    assert {topic.records for topic in await memory_laser.topics()} == {0}


@pytest.mark.parametrize("init", [_nested(), [threading.Lock()]], ids=["nested", "lock"])
async def test_a_fold_begins_with_what_can_be_copied(memory_laser: ls.Laser, init: Any) -> None:
    await memory_laser.ensure_topic(SESSIONS)
    scope = _scope(memory_laser)
    for call in (
        lambda: scope.state([SESSIONS], init, count, full=True),
        lambda: scope.state_with(ListStore(), [SESSIONS], init, count),
    ):
        with pytest.raises(ls.InvalidError, match=r"^init: this list cannot be copied") as caught:
            await call()
        assert caught.value.argument == "init"


async def test_a_state_nested_too_deep_is_not_saved(memory_laser: ls.Laser) -> None:
    await memory_laser.ensure_topic(SESSIONS)
    scope = _scope(memory_laser)
    await scope.append(SESSIONS, b"x")
    deep = _nested()
    with pytest.raises(ls.InvalidError, match=r"^state: .*nested deeper than"):
        await ls.snapshot_from_checkpoint(memory_laser, A, "f", await scope.checkpoint(), deep)
    store = ListStore()
    with pytest.raises(ls.InvalidError, match=r"^state: .*nested deeper than"):
        await scope.state_with(
            store, [SESSIONS], None, lambda state, message: deep, save=ls.AutoSave(every=1, fold="f")
        )
    assert store.kept == []


@pytest.mark.parametrize("value", [2**128, 10**5_000], ids=["2**128", "10**5000"])
def test_counts_have_a_text(value: int) -> None:
    assert ls.LastN(2**128 - 1).name == f"last_n({2**128 - 1})"
    with pytest.raises(ls.InvalidError, match=r"^n: .* is not a whole number from 0, below 2"):
        ls.LastN(value)
    with pytest.raises(ls.BudgetError, match=r"^max_tokens: .* is not a whole number of tokens from 0, below 2"):
        ls.TokenBudget(value)
