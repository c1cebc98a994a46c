"""Parts that need packages which laser itself does without, each behind an extra of its own."""
