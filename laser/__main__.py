"""``python -m laser`` is the ``laser`` command."""

from __future__ import annotations

from laser.cli import main

if __name__ == "__main__":
    main()
