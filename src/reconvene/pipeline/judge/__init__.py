"""Traces judged while they grow, by Structured Streaming."""
