"""Read views: what was folded from a topic, kept where it can be queried, thrown away and folded again at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

__all__ = ["View"]

Change_contra = TypeVar("Change_contra", contravariant=True)


class View(Protocol[Change_contra]):
    """What is kept of one topic of one stream.

    The log is the truth: a view holds nothing that cannot be folded again from offset 0, and its answers are only ever
    as new as its position. Several processes may keep the same view; ``apply`` lets one of them win.

    **Errors of every method.** ``ClosedError`` after the views were closed; ``StorageError`` from a local store,
    ``TransportError`` from a remote one.
    """

    async def position(self) -> str | None:
        """Up to where the topic was applied, as ``apply`` was last told; ``None`` when nothing was."""
        ...

    async def apply(
        self, changes: Sequence[Change_contra], *, firsts: Mapping[int, int], expect: str | None, position: str
    ) -> bool:
        """Applies what records say, and moves the position, in one transaction.

        Args:
            changes: ascending by offset within each partition. firsts: by partition, the first offset that the log
                still holds; what came from records below is removed.
            expect: where the position must be. position: where it is afterwards.

        Returns:
            ``False`` when the position was somewhere else: nothing was applied.
        """
        ...

    async def clear(self, *, expect: str | None) -> None:
        """Forgets everything, unless the position is not where it is expected to be."""
        ...
