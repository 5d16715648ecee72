"""Reconvene: group communication and a durable, totally ordered log for services whose network breaks."""

__version__ = "0.1.0"

__all__ = ["__version__"]
