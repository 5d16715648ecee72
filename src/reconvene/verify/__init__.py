"""The local reference engine: every check of a trace, written from the papers' specifications alone."""
