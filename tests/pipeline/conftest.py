"""One Spark session for all tests of the pipeline: starting one takes seconds."""

import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from reconvene.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_session("local[2,4]", conf={"spark.sql.shuffle.partitions": "4"}) as session:
            yield session
