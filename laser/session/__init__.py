"""The session room: conversations with a recorded lifecycle, and assembly with a recorded manifest."""
