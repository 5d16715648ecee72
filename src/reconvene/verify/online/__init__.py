"""Checks of a run that goes on: rows come in pieces, node by node, and what is proven right is forgotten."""
