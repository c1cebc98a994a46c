"""The built-in providers."""
