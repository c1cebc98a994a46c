"""Catalogs that are not in the log's own file."""
