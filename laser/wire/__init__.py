"""Byte formats, and nothing else: header blocks, provenance, envelopes, frames. Nothing here does I/O."""
