"""Simulated clusters for tests of services built on Reconvene."""
