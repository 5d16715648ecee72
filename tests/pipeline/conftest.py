"""One Spark session for all tests of the pipeline: starting one takes seconds."""

import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from reconvene.pipeline.session import open_session

QUICK = {
    "spark.sql.shuffle.partitions": "4",
    # Hundreds of small jobs: compiling them well would take Java longer than running them. What is compiled needs
    # more room than that level has by itself; when it is used up, Java compiles nothing any more.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session("local[2,4]", conf=QUICK) as session:
            yield session
