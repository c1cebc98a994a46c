"""Summarizers: adapters for the three model APIs, and an extractive one that needs no model."""
