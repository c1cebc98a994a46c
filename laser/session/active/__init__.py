"""The active context of a session."""
