"""The memory room: items folded from a topic, found again by keyword, meaning and age."""
