"""Which model of which provider a session talks to, and in which of the three request shapes."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from laser.errors import InvalidError

__all__ = ["API_KINDS", "ApiKind", "ModelSelection", "check_api_kind"]

ApiKind = Literal["openai_responses", "anthropic_messages", "chat_completions"]

API_KINDS: Final[tuple[ApiKind, ...]] = get_args(ApiKind)


class ModelSelection(msgspec.Struct, frozen=True, gc=False):
    """A model, without address or credentials: those are found outside, right before the call.

    Attributes:
        provider_id: the name under which endpoint and credentials are found. api_kind: the request shape, fixed for
            a session. model: the provider's name for the model.
    """

    provider_id: str
    api_kind: ApiKind
    model: str

    def check(self) -> ModelSelection:
        """Itself, when it can be used.

        Raises:
            InvalidError: a part is empty or no text, or the API kind is unknown.
        """
        for name in ("provider_id", "model"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise InvalidError(f"{name}: expected a name, got {value!r}", argument=name)
        check_api_kind(self.api_kind)
        return self


def check_api_kind(value: object) -> ApiKind:
    """The API kind.

    Raises:
        InvalidError: it is none of ``API_KINDS``.
    """
    for kind in API_KINDS:
        if value == kind:
            return kind
    raise InvalidError(f"api_kind: {value!r} is none of {', '.join(API_KINDS)}", argument="api_kind")
