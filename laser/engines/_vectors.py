"""Nearest vectors, in memory: exact while there are few, by their signs first and then exactly when there are many."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from laser.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from numpy import float32, int64, uint64
    from numpy.typing import NDArray

__all__ = ["Vectors", "pack_vector"]

# Up to so many the whole product takes a millisecond; above, so many of the likeliest are looked at exactly.
_EXACT: Final = 20_000
_LIKELIEST: Final = 1_000
# A vector counts twice where the question names who says the text.
_NAMED: Final = 2.0


def pack_vector(vector: Sequence[float]) -> bytes:
    """A vector of length 1 in this direction, as little-endian floats of 4 bytes.

    Raises:
        InvalidError: it is empty, or has a number that is not finite.
    """
    np = _numpy()
    values = np.asarray(vector, dtype=np.float64)
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidError("embedder: gave something else than a list of finite numbers", argument="embedder")
    length = float(np.linalg.norm(values))
    unit: bytes = (values / length if length else values).astype("<f4").tobytes()
    return unit


class Vectors:
    """The vectors of one model and namespace, grown as they come."""

    def __init__(self, dimensions: int) -> None:
        np = _numpy()
        self.dimensions = dimensions
        self.last = 0
        self._count = 0
        self._ascending = True
        self._rows = np.zeros(1_024, np.int64)
        self._vectors = np.zeros((1_024, dimensions), np.float32)
        self._signs = np.zeros((math.ceil(dimensions / 64), 1_024), np.uint64)  # a row for each 64 signs

    def extend(self, entries: Iterable[tuple[int, int, bytes]]) -> None:
        """Adds vectors.

        Args:
            entries: ascending numbers that say what was added already, rows, and packed vectors.
        """
        np = _numpy()
        batch = list(entries)
        if not batch:
            return
        vectors = np.frombuffer(b"".join(data for _, _, data in batch), "<f4").reshape(-1, self.dimensions)
        self._make_room(len(batch))
        part = slice(self._count, self._count + len(batch))
        rows = self._rows[part] = np.array([row for _, row, _ in batch], np.int64)
        before = self._rows[self._count - 1] if self._count else -1
        self._ascending = self._ascending and bool(before < rows[0] and (np.diff(rows) > 0).all())
        self._vectors[part] = vectors
        self._signs[:, part] = self._signs_of(vectors)
        self._count += len(batch)
        self.last = batch[-1][0]

    def nearest(
        self, query: bytes, count: int, *, only: Collection[int] | None, named: Collection[int]
    ) -> list[tuple[int, float]]:
        """The best rows by cosine, named ones counted twice; newer before older where they are equal.

        Args:
            query: a packed vector. only: rows to look at; ``None`` for all.
        """
        np = _numpy()
        vector = np.frombuffer(query, "<f4")
        rows = self._rows[: self._count]
        weights = np.ones(self._count, np.float32)
        if named:
            weights[self._places(named)] = _NAMED
        if only is not None:
            places = self._places(only)
        elif self._count > _EXACT:
            places = self._likeliest(vector, weights)
        else:
            places = np.arange(self._count)
        # Not the library's product of matrices: its sums change with what else is in them, and it keeps all cores busy.
        scores = np.einsum("ij,j->i", self._vectors[places], vector) * weights[places]
        order = np.lexsort((-rows[places], -scores))[:count]
        return [(int(rows[places[at]]), float(scores[at])) for at in order]

    def _places(self, wanted: Collection[int]) -> NDArray[int64]:
        """Where rows are that there are vectors of."""
        np = _numpy()
        rows, keys = self._rows[: self._count], np.fromiter(wanted, np.int64, len(wanted))
        if not self._ascending:
            unsorted: NDArray[int64] = np.flatnonzero(np.isin(rows, keys))
            return unsorted
        places = np.searchsorted(rows, keys)
        inside = places < len(rows)
        places, keys = places[inside], keys[inside]
        found: NDArray[int64] = places[rows[places] == keys]
        return found

    def _likeliest(self, vector: NDArray[float32], weights: NDArray[float32]) -> NDArray[int64]:
        np = _numpy()
        gaps = np.zeros(self._count, np.uint16)
        for signs, asked in zip(self._signs, self._signs_of(vector[None]), strict=True):
            gaps += np.bitwise_count(signs[: self._count] ^ asked)
        picks = []
        for least in sorted({1.0, float(weights.max())}):  # the named ones have a pick of their own
            places = np.flatnonzero(weights >= least)
            if len(places) > _LIKELIEST:
                places = places[np.argpartition(gaps[places], _LIKELIEST)[:_LIKELIEST]]
            picks.append(places)
        found: NDArray[int64] = np.unique(np.concatenate(picks))
        return found

    def _signs_of(self, vectors: NDArray[float32]) -> NDArray[uint64]:
        np = _numpy()
        bits = np.packbits(vectors > 0, axis=1)
        padded = np.zeros((len(vectors), len(self._signs) * 8), np.uint8)
        padded[:, : bits.shape[1]] = bits
        signs: NDArray[uint64] = padded.view(np.uint64).T
        return signs

    def _make_room(self, more: int) -> None:
        np = _numpy()
        needed = self._count + more
        if needed <= len(self._rows):
            return
        size = max(needed, 2 * len(self._rows))
        for name in ("_rows", "_vectors"):
            before = getattr(self, name)
            grown = np.zeros((size, *before.shape[1:]), before.dtype)
            grown[: self._count] = before[: self._count]
            setattr(self, name, grown)
        signs = np.zeros((len(self._signs), size), np.uint64)
        signs[:, : self._count] = self._signs[:, : self._count]
        self._signs = signs


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ConfigError(
            "embedder: vectors need numpy; install it with: pip install 'laser-context[vectors]'"
        ) from error
    return numpy
