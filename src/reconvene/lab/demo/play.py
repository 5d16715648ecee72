"""The whole demo: a cluster, the story, Spark, and the verdict."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from reconvene.errors import ReconveneError
from reconvene.lab.demo.ending import count, judge
from reconvene.lab.demo.paths import Paths
from reconvene.lab.demo.result import DemoResult, Finding
from reconvene.lab.demo.script import KILLED, SITES, Broken, Pace, open_story
from reconvene.lab.demo.spark import SparkBeside
from reconvene.lab.demo.stage import Stage
from reconvene.lab.demo.threads import in_thread
from reconvene.local import LocalCluster

__all__ = ["play"]

_PATIENT = {"timing": {"suspect_base": "1500ms", "round_patience": "2s"}}
"""Settings of the sites. By default they suspect a site after 0.6 s of silence. On a laptop that also runs Java and a
browser, such a site may only be waiting for a processor; each mistake would be a change that the script did not
cause."""

_START_S = 300.0
"""For the sites to start. A site that ends instead is noticed at once."""


async def play(
    paths: Paths, stage: Stage, *, seed: int = 7, keep: bool = False, spark: bool = True, pace: Pace | None = None
) -> DemoResult:
    """Runs the demo, and shows it on the stage. `spark`: use Spark if it is installed.

    With `keep` the cluster keeps running when this returns; else it is ended. Raises Rejected if the directory can't
    be used; everything else that goes wrong is a finding.
    """
    paths.prepare()
    # The story explains lost connections, and the clients reconnect: their warnings would only repeat it.
    logging.getLogger("reconvene.client").setLevel(logging.ERROR)
    outcome = DemoResult(cluster=str(paths.cluster))
    cluster = LocalCluster.create(paths.cluster, SITES, settings=_PATIENT)
    try:
        stage.opening()
        stage.note("Starting them …")
        async with _spark_beside(paths, outcome, spark) as beside:
            await in_thread(cluster.start, _START_S)
            outcome.dashboards = cluster.dashboards
            if beside is not None:
                order = (KILLED, *(name for name in SITES if name != KILLED))
                beside.follow([cluster.addresses[name] for name in order], paths.table)
            async with open_story(cluster, stage, outcome, pace or Pace(), seed, beside) as story:
                await story.tell()
                await count(story)
            await judge(story, paths, keep)
    except (Broken, ReconveneError, TimeoutError) as error:
        why = " ".join(str(error).split()) or "it took too long"
        outcome.findings.append(Finding("the story runs to its end", False, why))
    finally:
        stage.still()
        outcome.running = keep and cluster.running()
        if not outcome.running:
            cluster.kill()
    outcome.figures.seconds = stage.seconds
    paths.write_outcome(outcome.document())
    stage.verdict(outcome)
    return outcome


@asynccontextmanager
async def _spark_beside(paths: Paths, outcome: DemoResult, wanted: bool) -> AsyncIterator[SparkBeside | None]:
    if not wanted:
        outcome.no_spark = "it was not asked for"
    elif find_spec("pyspark") is None:
        outcome.no_spark = "it is not installed; to add it: pip install 'reconvene[spark]', and Java 17 or later"
    if outcome.no_spark is not None:
        yield None
        return
    async with SparkBeside(paths.spark_log) as beside:
        yield beside
