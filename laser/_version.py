"""The version, read by the build and by ``laser.__version__``."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
