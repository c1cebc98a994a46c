"""Summarizers: one for models of the three APIs, and an extractive one that needs no model."""
