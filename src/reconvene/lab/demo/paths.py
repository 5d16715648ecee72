"""The demo's directory: its cluster, its table, its reports. A new demo replaces an earlier one, and nothing else."""

import shutil
from pathlib import Path

import msgspec

from reconvene.errors import Rejected
from reconvene.local import Layout, LocalCluster

__all__ = ["Paths"]


class Paths:
    """The files of one demo."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.cluster = self.directory / "wiredville"
        self.table = self.directory / "spark"
        """Of the stream: its checkpoint, and under `log` its rows."""
        self.spark_log = self.directory / "spark.log"
        self.trace = self.directory / "trace"
        """If the cluster is left running: a copy of its trace as of when the polls closed."""
        self.checks = self.directory / "checks.html"
        self.report = self.directory / "report.html"
        self.outcome = self.directory / "demo.json"

    def prepare(self) -> None:
        """Removes what an earlier demo left. Raises Rejected if the directory holds something else, or that demo
        still runs."""
        try:
            if self.directory.exists() and (not self.directory.is_dir() or any(self.directory.iterdir())):
                self._clear()
            self.directory.mkdir(parents=True, exist_ok=True)
            self.write_outcome({})
        except OSError as error:
            raise Rejected(f"{self.directory}: can't be used: {error.strerror or error}") from None

    def write_outcome(self, document: object) -> None:
        """The next demo recognizes its directory by this file."""
        self.outcome.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")

    def _clear(self) -> None:
        if not self.outcome.is_file():
            raise Rejected(
                f"{self.directory}: is no demo's directory; expected a new or an empty one, or an earlier demo's"
            )
        if Layout(self.cluster).exists() and LocalCluster(self.cluster).running():
            raise Rejected(
                f"{self.directory}: an earlier demo's cluster still runs there; end it with `reconvene down --dir"
                f" {self.cluster}`"
            )
        for directory in (self.cluster, self.table, self.trace):
            shutil.rmtree(directory, ignore_errors=True)
        for file in (self.spark_log, self.checks, self.report):
            file.unlink(missing_ok=True)
