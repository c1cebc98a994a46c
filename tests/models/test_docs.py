"""The program in ``docs/models.md`` runs, and every name there is one."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import pytest

from laser import models
from tests.commands import ROOT
from tests.models import answers
from tests.models.provider import run_provider

DOCS = (ROOT / "docs" / "models.md").read_text()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    with run_provider() as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        provider.will_answer(answers.message([answers.THINKING, answers.TOOL_USE]))
        said = answers.message([{"type": "text", "text": "It is on its way."}], stop="end_turn")
        provider.will_answer(answers.body("anthropic_messages", said), stream=True)
        names: dict[str, Any] = {}
        for block in blocks:
            done = eval(compile(block, "models.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(done):
                await done
        await names["client"].close()
    assert capsys.readouterr().out == "tool_calls ['find_order'] 1000\nTrue It is on its way.\n"
    assert [one.complaints for one in provider.received] == [[], []]


def test_every_name_there_is_one() -> None:
    assert sorted(
        models.__all__, key=lambda name: (0 if name.isupper() else 1 if name[0].isupper() else 2, name)
    ) == list(models.__all__)
    for name in models.__all__:
        value = getattr(models, name)
        assert not (inspect.isclass(value) or inspect.isfunction(value)) or inspect.getdoc(value), name
    for name in re.findall(r"models\.(\w+)", DOCS.replace("models.md", "").replace("laser.models", "")):
        assert name in models.__all__, name
