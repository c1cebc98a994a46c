"""Tokenizers: what a text costs by the estimate, or by a real vocabulary (extra ``tokens``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from laser.errors import ConfigError, InvalidError
from laser.model.messages import ContextMessage
from laser.ports.estimator import estimate_tokens

__all__ = ["TOKENIZERS", "Tokenizer", "tokens"]

TOKENIZERS: Final = ("bytes/4", "o200k_base", "cl100k_base", "o200k_harmony")
"""The names that ``tokens`` takes: the estimate; GPT-4o, GPT-4.1 and GPT-5; GPT-4; GPT-OSS."""


@runtime_checkable
class Tokenizer(Protocol):
    """Counts tokens. Called with a message it is a ``TokenEstimator``, so that ``TokenBudget`` takes it too."""

    @property
    def name(self) -> str:
        """Which one it is; a prompt's trace names it."""
        ...

    def count(self, text: str) -> int:
        """Tokens of a text, a whole number from 0. Pure, and quick: it runs on the event loop."""
        ...

    def __call__(self, message: ContextMessage) -> int:
        """Tokens of a message's text."""
        ...


class _Estimate:
    """Bytes divided by four, rounded up: for English prose near the truth, for other texts not; see the docs."""

    name = "bytes/4"

    def count(self, text: str) -> int:
        return estimate_tokens(text.encode("utf-8", "replace"))

    def __call__(self, message: ContextMessage) -> int:
        return self.count(message.text)

    def __repr__(self) -> str:
        return "tokens('bytes/4')"


class _Vocabulary:
    """A vocabulary of the package ``toktok-rs``, which has it inside: nothing is downloaded."""

    def __init__(self, name: str) -> None:
        try:
            from toktok import batch_count  # pyright: ignore[reportMissingImports] - an extra
        except ImportError as error:
            raise ConfigError(
                f"tokens: the vocabulary {name} needs the extra: pip install 'laser-context[tokens]'"
            ) from error
        self._batch_count = batch_count
        self.name = name

    def count(self, text: str) -> int:
        # Halves of surrogate pairs, which no provider takes, count as the replacement that is sent.
        return self.count_many([text])[0]

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        counts: list[int] = self._batch_count(
            [text.encode("utf-8", "replace").decode() for text in texts], self.name, threads=1
        )
        return counts

    def __call__(self, message: ContextMessage) -> int:
        return self.count(message.text)

    def __repr__(self) -> str:
        return f"tokens({self.name!r})"


def tokens(name: str = "bytes/4") -> Tokenizer:
    """A tokenizer by its name.

    Args:
        name: of ``TOKENIZERS``. ``bytes/4`` is the estimate that everything in laser uses by default; the others
            count exactly what a model of theirs reads, and need the extra ``tokens``.

    Raises:
        InvalidError: another name. ConfigError: the extra is not installed.
    """
    if name not in TOKENIZERS:
        raise InvalidError(f"name: {name!r:.40} is not one of {', '.join(TOKENIZERS)}", argument="name")
    return _Estimate() if name == "bytes/4" else _Vocabulary(name)
