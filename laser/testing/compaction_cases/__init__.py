"""The cases of ``CompactionConformance``, by theme."""
