"""Large traces, made on Spark: correct ones, to measure with, and ones that are wrong in a single place.

    traces = generate(spark, recipe(10_000_000, nodes=5, changes=8))
    write_traces(traces, "out/made")
    wrong = generate(spark, recipe(10_000_000, mutation="swap-agreed", at=0.9))

Every event follows from its number alone, so any number of tasks can make a hundred million of them.
"""

from reconvene.lab.generate.make import generate, write_traces
from reconvene.lab.generate.mutations import MUTATIONS
from reconvene.lab.generate.recipe import STACKS, recipe

__all__ = ["MUTATIONS", "STACKS", "generate", "recipe", "write_traces"]
