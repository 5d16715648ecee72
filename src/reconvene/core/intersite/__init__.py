"""Channels from site to site: ordered, lossless, with a window (paper 002, 4.1)."""
