"""A system's speed and fairness, from its traces: a file for each measure, a function from tables to a table each.

`measure` puts them together. Nothing that grows with the traces is collected: aggregates, and samples with limits.
"""
