"""The driver of a streaming query that stands still between the sink's commit and Spark's: for a test that kills it.

Given: addresses of replicas, a directory of text files, a checkpoint, and a file that is made when the sink has
committed.
"""

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_reconvene import DefaultSource
from reconvene.pipeline.session import open_session
from reconvene.pipeline.sink.stream import StreamWriter

_FOR_EVER_S = 600


class StandingStill(StreamWriter):
    def __init__(self, options: dict[str, str], schema: StructType, overwrite: bool, mark: str) -> None:
        super().__init__(options, schema, overwrite)
        self._mark = mark

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        Path(self._mark).touch()
        time.sleep(_FOR_EVER_S)


class StandingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "standing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        given = dict(self.options)
        return StandingStill(given, schema, overwrite, given.pop("mark"))


def main(addresses: str, files: str, checkpoint: str, mark: str) -> None:
    with open_session("local[2,4]", conf={"spark.driver.memory": "1g"}) as spark:
        spark.dataSource.register(StandingSource)
        frame = spark.readStream.option("maxFilesPerTrigger", 1).text(files).repartition(2)
        query = (
            frame.writeStream.format("standing")
            .options(addresses=addresses, checkpointLocation=checkpoint, mark=mark)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    # By its name, so that Spark's workers find its classes.
    import_module("sink_driver").main(*sys.argv[1:])
