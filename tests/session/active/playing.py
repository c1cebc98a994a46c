"""Random play on a session's active context, with what must hold after every move."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import laser as ls

KEYS = ("a", "b", "c")


def entry(rng: random.Random, *, run: bool = False) -> ls.NewEntry:
    """Any entry."""
    kind = rng.choice(("instruction", "user", "user", "catalog", "catalog", "skill", "tool_result", "summary"))
    keyed = kind in ("instruction", "catalog", "skill") or rng.random() < 0.1
    return ls.NewEntry(
        kind,  # type: ignore[arg-type]
        rng.randbytes(4).hex().encode(),
        key=rng.choice(KEYS) if keyed else None,
        call_id=rng.choice(KEYS) if kind == "tool_result" else None,
        tokens=None if rng.random() < 0.1 else rng.randrange(100),
        scope="run" if run and rng.random() < 0.3 else "session",
    )


def outputs(rng: random.Random) -> list[ls.NewEntry]:
    """What a model may give."""
    made = [ls.NewEntry("assistant", rng.randbytes(4).hex().encode(), tokens=rng.randrange(50))]
    if rng.random() < 0.5:
        call = rng.choice(KEYS)
        made.append(ls.NewEntry("tool_call", b"{}", call_id=call, tokens=1))
        if rng.random() < 0.7:
            result = ls.NewEntry("tool_result", b"[]", call_id=call, tokens=1, interim=rng.random() < 0.2)
            made.append(result)
    return made


class Player:
    """Makes random moves through the public API, and remembers every state that it saw.

    Attributes:
        states: by revision, the context at its last moment there.
    """

    def __init__(self, session: ls.Session, rng: random.Random) -> None:
        self._session = session
        self._rng = rng
        self.run: ls.Run | None = None
        self.turn: ls.Turn | None = None
        self._payloads: dict[int, bytes | None] = {}
        self.state = ls.ActiveState(0, ())
        self.states: dict[int, ls.ActiveState] = {0: self.state}

    async def play(self, moves: int) -> None:
        """Makes moves."""
        for _ in range(moves):
            names = ["add", "add", "remove", "replace", "stale", "steer", "run"]
            names += ["turn", "turn", "turn", "finish"] if self.run is not None else ["compact", "run"]
            before = self.state
            state = await getattr(self, f"_{self._rng.choice(names)}")()
            if state is not None:
                self.note(before, state)

    def note(self, before: ls.ActiveState, state: ls.ActiveState) -> None:
        """Checks a state, and remembers it."""
        assert state.revision >= before.revision
        assert state.revision > before.revision or state.entries == before.entries or _only_consumed(before, state)
        self._check(state)
        self.state = self.states[state.revision] = state

    def _check(self, state: ls.ActiveState) -> None:
        kinds = [one.kind for one in state.entries]
        firsts = [one.entry.key or "" for one in state.entries if one.kind == "instruction"]
        assert kinds[: len(firsts)] == ["instruction"] * len(firsts)
        assert firsts == sorted(firsts)
        ids = [one.id for one in state.entries]
        assert len(ids) == len(set(ids))
        running = None if state.run is None or state.run.state != "running" else state.run.id
        versions: dict[tuple[str | None, str | None], list[ls.ContextEntry]] = defaultdict(list)
        current: set[tuple[str, str, str | None]] = set()
        for one in state.entries:
            assert one.run is None or one.run == running
            assert (one.run is None) == (one.entry.scope == "session")
            if one.kind == "catalog":
                versions[one.entry.key, one.run].append(one)
                # A version's bytes never change.
                assert self._payloads.setdefault(one.id, one.entry.payload) == one.entry.payload
            if one.entry.key is not None and not one.superseded:
                identity = one.kind, one.entry.key, one.run
                assert identity not in current
                current.add(identity)
        for found in versions.values():
            assert [one.superseded for one in found] == [True] * (len(found) - 1) + [False]
            assert len(found) <= 6
            assert all(later.supersedes == one.id for one, later in pairwise(found))
        removable = {one.id for one in ls.compactable(state.entries)}
        for one in state.entries:
            if one.entry.call_id is not None and one.id in removable:
                assert all(other.id in removable for other in state.entries if other.entry.call_id == one.entry.call_id)

    async def _add(self) -> ls.ActiveState:
        made = [entry(self._rng, run=self.run is not None) for _ in range(self._rng.randrange(1, 4))]
        return await self._session.active.add(self.state.revision, *made)

    async def _remove(self) -> ls.ActiveState | None:
        if not self.state.entries:
            return None
        return await self._session.active.remove(self.state.revision, self._rng.choice(self.state.entries).id)

    async def _replace(self) -> ls.ActiveState | None:
        if not self.state.entries:
            return None
        victim = self._rng.choice(self.state.entries).id
        try:
            return await self._session.active.replace(self.state.revision, victim, entry(self._rng))
        except ls.InvalidError:
            # A catalog is never replaced, and a key belongs to one entry.
            return None

    async def _stale(self) -> None:
        for seen in {self.state.revision - 1, self.state.revision + 1} - {-1}:
            try:
                await self._session.active.add(seen, entry(self._rng))
            except ls.ConflictError:
                continue
            raise AssertionError(f"an edit of revision {seen} went through at {self.state.revision}")

    async def _steer(self) -> ls.ActiveState:
        return await self._session.active.steer(entry(self._rng, run=True))

    async def _run(self) -> ls.ActiveState | None:
        run = self._session.run([entry(self._rng, run=True) for _ in range(self._rng.randrange(3))])
        if self.run is not None:
            try:
                await run.start()
            except ls.BusyError:
                return None
            raise AssertionError("two runs at once")
        self.run = run
        return await run.start()

    async def _turn(self) -> ls.ActiveState:
        assert self.run is not None
        if self.turn is None:
            self.turn = await self.run.turn()
            return self.turn.context
        turn, self.turn = self.turn, None
        if self._rng.random() < 0.2:
            return await turn.fail(outputs(self._rng))
        return await turn.finish(outputs(self._rng), {"input_tokens": self._rng.randrange(1_000)})

    async def _finish(self) -> ls.ActiveState:
        assert self.run is not None
        run, self.run, self.turn = self.run, None, None
        return await run.finish(ls.NewEntry("assistant", b"in the end"), self._rng.choice(("ended", "failed")))

    async def _compact(self) -> ls.ActiveState | None:
        how = self._rng.choice(("some", "some", "nothing", "raise", "wrong"))
        removed = [one.id for one in ls.compactable(self.state.entries)]
        before = self.state

        async def work(state: ls.ActiveState) -> ls.Account | None:
            assert state.pending is not None
            assert state.entries == before.entries
            if how == "raise":
                raise RuntimeError("no model today")
            if how == "nothing" or not removed:
                return None
            wanted = [*removed, 10_000] if how == "wrong" else removed
            return ls.Account(wanted, [ls.NewEntry("summary", b"all of that", tokens=3)])

        try:
            return await self._session.compact(work)
        except (RuntimeError, ls.InvalidError):
            assert how in ("raise", "wrong")
            state = await self._session.active.read()
            assert state == before
            return None


def _only_consumed(before: ls.ActiveState, after: ls.ActiveState) -> bool:
    return [(one.id, one.entry) for one in before.entries] == [(one.id, one.entry) for one in after.entries]
