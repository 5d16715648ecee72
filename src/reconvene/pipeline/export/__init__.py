"""Parquet tables that keep in step with the log, by Structured Streaming."""

from reconvene.pipeline.export.query import Export, export_log, hold

__all__ = ["Export", "export_log", "hold"]
