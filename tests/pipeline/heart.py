"""The heart of the pipeline on any Spark: verify, a campaign, the source and the sink. A program, since a process has
one kind of Spark; prints `right` at the end.

    python -m tests.pipeline.heart MASTER CLUSTER-DIRECTORY DIRECTORY [proofs]
"""

import sys
from pathlib import Path

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from reconvene import blocking
from reconvene.lab.campaign.directory import CampaignDirectory, Settings
from reconvene.lab.campaign.seeds import Outcome
from reconvene.lab.campaign.spark import run_campaign
from reconvene.local import LocalCluster
from reconvene.pipeline.session import open_session
from reconvene.pipeline.traces import read_traces
from reconvene.pipeline.verify.engine import verify_traces
from reconvene.trace.reader import read_trace
from reconvene.verify.engine import verify
from reconvene.verify.history import History
from reconvene.verify.report import Report

GOLDEN = Path(__file__).parent.parent / "golden"
SEEDS = [("chaos", 1), ("log", 1)]
ROWS = 2_000
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(master: str, cluster: str, out: str, *more: str) -> None:
    with open_session(master, conf={} if master.startswith("sc://") else QUICK) as spark:
        check_verify(spark, 100_000)
        if "proofs" in more:
            check_verify(spark, 0)
        check_campaign(spark, Path(out, "campaign"))
        check_log(spark, LocalCluster(Path(cluster)), Path(out))
    print("right")


def golden() -> list[Path]:
    """Some of each family, good and bad."""
    found = [*sorted((GOLDEN / "good").iterdir())[::8]]
    for family in ("evs", "corel", "vs"):
        found += sorted((GOLDEN / "bad").glob(f"{family}.*"))[:2]
    return found


def _local(paths: list[Path]) -> Report:
    return verify(History.of(trace.run, trace.rows) for trace in map(read_trace, paths))


def check_verify(spark: SparkSession, whole_rows: int) -> None:
    """Some golden traces, judged whole up to so many rows, and larger ones by proofs."""
    paths = golden()
    wanted = _local(paths)
    assert not wanted.ok
    report = verify_traces(spark, read_traces(spark, paths, apart=True), whole_rows=whole_rows)
    assert structs.replace(report, engine="local") == wanted


def check_campaign(spark: SparkSession, root: Path) -> None:
    directory = CampaignDirectory(root, Outcome)
    directory.open(Settings(nodes=3))
    run_campaign(spark, directory, SEEDS, nodes=3)
    for profile, seed in SEEDS:
        assert seed in directory.done(profile)


def check_log(spark: SparkSession, cluster: LocalCluster, out: Path) -> None:
    where = ",".join(cluster.addresses.values())
    rows = spark.range(0, ROWS, 1, 4).select(F.col("id").cast("string").alias("payload"))
    for _ in range(2):
        rows.write.format("reconvene").mode("append").options(addresses=where, txnAppId="a", txnVersion="1").save()
    read = spark.read.format("reconvene").options(addresses=where).load()
    assert _payloads(read) == sorted(str(number) for number in range(ROWS))
    stream = spark.readStream.format("reconvene").options(addresses=where).load()
    copied = stream.select(F.concat(F.lit("again "), F.col("payload").cast("string")).alias("payload"))
    query = (
        copied.writeStream.format("reconvene")
        .options(addresses=where, checkpointLocation=str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    wanted = [text for number in range(ROWS) for text in (str(number), f"again {number}")]
    with blocking.connect(where.split(","), wait=30) as site:
        site.log.barrier(30)
        assert sorted(entry.data.decode() for entry in site.log.read()) == sorted(wanted)


def _payloads(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.payload).decode() for row in frame.select("payload").collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
