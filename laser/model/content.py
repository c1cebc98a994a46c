"""Content: immutable bytes by what they are."""

from __future__ import annotations

import msgspec

__all__ = ["ContentRef"]


class ContentRef(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Names immutable bytes. It is no right to read them: they are looked up in a tenant's store.

    Attributes:
        digest: SHA-256 of the bytes, 64 lower-case hexadecimal characters. media_type: such as ``text/plain``.
        provider_kind: the provider's encoding, where the bytes are in one.
    """

    digest: str
    media_type: str
    provider_kind: str | None = None
