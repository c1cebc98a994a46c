"""Fragments: the pieces that a prompt is made of."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from laser.errors import InvalidError

__all__ = ["LAYERS", "Fragment", "Layer", "Place", "check_fragment"]

Layer = Literal["identity", "volatile"]
"""``identity``: bytes that change with the configuration only, so that a provider's cache can hold them.
``volatile``: all else."""

LAYERS: Final[tuple[Layer, ...]] = ("identity", "volatile")

Place = Literal["system", "history", "tail"]
"""Where a fragment goes: into the system text, among the messages, or after them, before the current one."""

_PLACES: Final[tuple[Place, ...]] = ("system", "history", "tail")


class Fragment(msgspec.Struct, frozen=True, gc=False):
    """A piece of a prompt.

    Attributes:
        category: what a trace counts it under, such as ``memory``.
        text: as the model reads it; in place ``history`` a message as JSON, in place ``tail`` the text of a message
            of the user.
        priority: the lowest leaves first. pinned: it never leaves.
        layer, place: see ``Layer`` and ``Place``. Only volatile fragments go anywhere but into the system text.
        unit: of a message: those of one number leave together, such as a tool call and its results.
        tokens: what it costs, where its provider counted already; ``None`` has it counted.
        flat: tokens that are not in the text, such as those of images. measured: the text to count where it is not
            ``text``: without the bytes of images.
    """

    category: str
    text: str
    priority: int
    layer: Layer = "volatile"
    place: Place = "system"
    pinned: bool = False
    unit: int | None = None
    tokens: int | None = None
    flat: int = 0
    measured: str | None = None


def check_fragment(fragment: Fragment) -> Fragment:
    """The fragment, when its parts fit together.

    Raises:
        InvalidError: they do not.
    """
    if not isinstance(fragment, Fragment):
        raise InvalidError(f"fragment: expected a Fragment, got {type(fragment).__name__}", argument="fragment")
    if not isinstance(fragment.text, str) or not isinstance(fragment.category, str) or not fragment.category:
        raise InvalidError("fragment: category and text must be text", argument="fragment")
    if type(fragment.priority) is not int:
        raise InvalidError(f"fragment: priority {fragment.priority!r:.40} is not a whole number", argument="fragment")
    if fragment.layer not in LAYERS or fragment.place not in _PLACES:
        raise InvalidError(
            f"fragment: layer {fragment.layer!r:.40}, place {fragment.place!r:.40}: a layer is one of "
            f"{', '.join(LAYERS)}, a place one of {', '.join(_PLACES)}",
            argument="fragment",
        )
    if fragment.layer == "identity" and fragment.place != "system":
        raise InvalidError("fragment: the identity layer is part of the system text only", argument="fragment")
    return fragment
