"""Votes in the log, counted by Spark: a notebook as a script, one `# %%` a cell.

Service: the durable log, read as a Spark source. Positions are the offsets and the same at every replica, so Spark
may read from whichever answers, and nothing is counted twice.

In a minority: what was ordered can be read there as everywhere. What is accepted there has no place yet, and is in
no table of ordered rows; it comes with the rows once the network is whole again. With the option `tentative` a batch
also shows what is pending, with its colour.

Run it: python examples/spark_tally.py, or cell by cell in an editor that knows `# %%`. It needs reconvene[spark]
and Java.
"""

# %% A cluster with votes, one site of it cut off
import atexit
import tempfile
from contextlib import ExitStack

import msgspec
from pyspark.sql import DataFrame

from reconvene import blocking
from reconvene.local import LocalCluster
from reconvene.pipeline.session import open_session

notebook = ExitStack()
atexit.register(notebook.close)  # also where a cell fails
cluster = notebook.enter_context(LocalCluster.create(notebook.enter_context(tempfile.TemporaryDirectory())))
cluster.start()


def vote(site: str, choice: str, count: int) -> None:
    votes = [msgspec.json.encode({"choice": choice, "booth": site, "number": number}) for number in range(count)]
    with blocking.connect(cluster.addresses[site]) as booth:
        booth.log.append_many(votes)


def wait_until_ordered(name: str) -> None:
    """Waits until all that this site has accepted is ordered."""
    with blocking.connect(cluster.addresses[name]) as site:
        while site.log.pending():
            site.log.barrier()


vote("a", "tea", 30)
wait_until_ordered("a")
cluster.partition([["a", "b"], ["c"]])
cluster.wait_for()
vote("b", "coffee", 40)
vote("c", "tea", 20)
wait_until_ordered("b")

# %% Spark
small = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # a job of seconds
spark = notebook.enter_context(open_session("local[2,4]", conf=small))
log = {
    "addresses": ",".join(cluster.addresses.values()),
    "format": "json",
    "schema": "choice STRING, booth STRING, number INT",
}


def count() -> DataFrame:
    """Of what is ordered now."""
    return spark.read.format("reconvene").options(**log).load().groupBy("choice").count().orderBy("choice")


# %% Counted while c is cut off: its votes are safe, and not in the order yet
count().show()

# %% With what c has accepted, by colour
only_c = {**log, "addresses": cluster.addresses["c"], "tentative": "true"}
at_c = spark.read.format("reconvene").options(**only_c).load()
at_c.groupBy("choice", "color").count().orderBy("choice", "color").show()

# %% The network mends: all votes are in the order, each once
cluster.heal()
cluster.wait_for()
wait_until_ordered("c")
count().show()

# %% The end
notebook.close()
