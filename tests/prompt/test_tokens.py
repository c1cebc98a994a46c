"""Tokenizers: the estimate, real vocabularies, and how far they are apart."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

import laser as ls
import laser.prompt as lp
from benchmarks.estimates import SAMPLES, estimate_table
from tests.commands import ROOT
from tests.prompt.making import IDENTITY

DOC = ROOT / "docs" / "tokens.md"


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("bytes/4", "", 0),
        ("bytes/4", "hello", 2),
        ("bytes/4", "你好世界" * 25, 75),
        ("o200k_base", "", 0),
        ("o200k_base", "hello world", 2),
        ("o200k_base", "<|endoftext|>", 7),
        ("cl100k_base", "hello world", 2),
        ("o200k_base", "a" * 5_000, 625),
        ("o200k_base", "\ud83d", 1),
        ("bytes/4", "\ud83d", 1),
    ],
)
def test_counts(name: str, text: str, count: int) -> None:
    assert ls.tokens(name).count(text) == count


def test_it_is_an_estimator_of_policies() -> None:
    # B1, B4: what a vocabulary counts, not white space and not characters.
    estimator: ls.Tokenizer = ls.tokens("o200k_base")
    policy = ls.TokenBudget(50, estimator)
    assert policy.name == "token_budget(50)"
    assert estimator.count("今日は良い天気です" * 20) > 80
    assert estimator.name == "o200k_base"
    assert repr(estimator) == "tokens('o200k_base')"


@pytest.mark.parametrize("name", ["", "gpt-9", None, 7])
def test_unknown_names(name: Any) -> None:
    with pytest.raises(ls.InvalidError, match="o200k_base"):
        ls.tokens(name)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "toktok":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "toktok", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ls.ConfigError, match=r"laser-context\[tokens\]"):
        ls.tokens("o200k_base")
    assert ls.tokens().count("abcd") == 1


@pytest.mark.anyio
async def test_the_trace_names_the_tokenizer() -> None:
    for name in lp.TOKENIZERS:
        made = lp.PromptBuilder(None, [lp.Identity(IDENTITY)], tokens=ls.tokens(name))
        assert (await made.build()).trace.tokenizer == name


def test_the_docs_show_the_error_of_the_estimate() -> None:
    table = estimate_table()
    assert len(table.splitlines()) == len(SAMPLES) + 2
    assert table in DOC.read_text(), "python -m benchmarks.estimates prints it"


def test_the_vocabulary_is_the_published_one() -> None:
    """Texts whose counts were made with OpenAI's tiktoken 0.14."""
    counts = {
        "The quick brown fox jumps over the lazy dog.": (10, 10),
        "你好，世界！今天天气怎么样？": (9, 17),
        "👨‍👩‍👧‍👦 🔥🎉💯": (17, 25),
        'def f(x: int) -> str:\n    return f"{x:>10}"\n': (18, 17),
        '{"id":"A-17","qty":3,"tags":["a","b"]}': (18, 17),
    }
    for text, (o200k, cl100k) in counts.items():
        assert (ls.tokens("o200k_base").count(text), ls.tokens("cl100k_base").count(text)) == (o200k, cl100k), text
