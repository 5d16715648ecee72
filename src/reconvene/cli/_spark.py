"""What all commands on Spark have: options that say which Spark, and its session."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reconvene.pipeline import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Conf", "Master", "Spark"]

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark master's URL, or sc://HOST:PORT; default: all cores of this machine."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, such as spark.driver.memory=8g; may be repeated."
    ),
]


@dataclass(frozen=True, slots=True)
class Spark:
    """Which Spark, and how it is set."""

    master: str | None
    conf: dict[str, str]

    @classmethod
    def parse(cls, master: str | None, conf: Iterable[str] | None) -> "Spark":
        """May raise Malformed, before anything is started."""
        return cls(master, session.parse_conf(conf or ()))

    @property
    def asked(self) -> bool:
        """Did the user give one of the options?"""
        return self.master is not None or bool(self.conf)

    def open(
        self, app: str = "reconvene", defaults: Mapping[str, str] | None = None
    ) -> "AbstractContextManager[SparkSession]":
        """Says in an error how to install Spark, if it is not there: most commands run without it."""
        return session.open_session(self.master, app=app, conf=self.conf, defaults=defaults)
