"""Read views on SQLite."""
