"""The cases of ``KeyValueConformance``, by what they ask of a store."""
