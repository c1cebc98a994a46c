"""Hierarchical summaries with links down to the rows that they stand for."""
