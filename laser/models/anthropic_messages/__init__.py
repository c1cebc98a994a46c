"""Anthropic Messages: reading, folding streams, lowering."""
