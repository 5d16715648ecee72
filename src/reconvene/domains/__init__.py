"""Clusters that are joined by representatives: docs/domains.md."""
