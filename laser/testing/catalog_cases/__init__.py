"""The cases of ``CatalogConformance``, by subject."""
