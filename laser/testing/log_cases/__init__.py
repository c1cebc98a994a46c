"""The cases of ``LogConformance``, by what they ask of a log."""
