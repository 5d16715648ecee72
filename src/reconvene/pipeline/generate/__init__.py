"""Large traces, made on Spark: right ones, for measuring, and ones that are wrong in a single place.

    traces = generate(spark, 10_000_000, nodes=5, changes=8)
    write_traces(traces, "out/made")

Every event follows from its number alone, so that a hundred million of them are made by any number of tasks.
"""

from reconvene.pipeline.generate.make import STACKS, generate, write_traces

__all__ = ["STACKS", "generate", "write_traces"]
