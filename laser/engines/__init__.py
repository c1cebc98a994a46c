"""Engines: each implements a port, and is the only importer of its driver."""
