"""The directory of several joined local clusters: which there are, their gateways, and what was chosen for all.

DIR/domains.toml        the choices
DIR/between.json        the present partition between clusters
DIR/above.key           the key of the cluster above
DIR/clusters/NAME/      each cluster, as `LocalCluster` keeps it
DIR/trace/              one trace of all levels
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from reconvene.errors import Malformed, Rejected
from reconvene.ids import MAX_SITES
from reconvene.local.directory import Directory, replace_file
from reconvene.local.layout import DOMAINS_FILE
from reconvene.local.toml import to_toml

__all__ = ["ABOVE", "DomainChoices", "DomainLayout", "cluster_names"]

ABOVE = "above"
"""The name of the cluster above."""
_FILE = DOMAINS_FILE
_SCHEMA = 1
_CITIES = ("berlin", "paris", "oslo", "madrid", "rome", "athens", "lisbon", "vienna", "prague", "dublin")
_NAME = set("abcdefghijklmnopqrstuvwxyz0123456789_-")


class DomainChoices(Struct, frozen=True, kw_only=True):
    """domains.toml."""

    schema: int = _SCHEMA
    clusters: dict[str, list[str]]
    """By name, the gateways of each, best first."""
    order: str = "atop"
    insecure: bool = False
    trace: bool = True
    ports: dict[str, int] = field(default_factory=dict)
    """By CLUSTER.SITE, where each gateway receives datagrams of the cluster above."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.clusters))

    @property
    def upper(self) -> tuple[str, ...]:
        """The sites of the cluster above."""
        return tuple(sorted(f"{name}.{gateway}" for name, found in self.clusters.items() for gateway in found))


def cluster_names(count: int) -> tuple[str, ...]:
    """berlin, paris, oslo, …; beyond ten of them c11, c12, …"""
    if not 1 <= count <= MAX_SITES:
        raise Rejected(f"{count} clusters: expected 1 to {MAX_SITES}")
    return tuple(_CITIES[at] if at < len(_CITIES) else f"c{at + 1}" for at in range(count))


class DomainLayout(Directory):
    @property
    def key(self) -> Path:
        return self.directory / "above.key"

    @property
    def between(self) -> Path:
        return self.directory / "between.json"

    def cluster(self, name: str) -> Path:
        return self.directory / "clusters" / name

    def exists(self) -> bool:
        return (self.directory / _FILE).is_file()

    def make(self, clusters: Mapping[str, Sequence[str]]) -> None:
        """Raises Rejected for bad names, or if the directory contains anything."""
        gateways = sum(map(len, clusters.values()))
        if not 1 <= gateways <= MAX_SITES:
            raise Rejected(f"{self}: {gateways} gateways: expected 1 to {MAX_SITES} in all")
        for name in clusters:
            if not name or len(name) > 32 or not set(name) <= _NAME or name in (ABOVE, "wide"):
                raise Rejected(
                    f"{self}: cluster {name!r}: expected up to 32 small letters, digits, - and _, not {ABOVE} or wide"
                )
        self.make_empty("clusters")

    def load(self) -> DomainChoices:
        path = self.directory / _FILE
        try:
            document = tomllib.loads(path.read_text())
            choices = msgspec.convert(document, DomainChoices)
        except FileNotFoundError:
            raise Rejected(
                f"{self}: holds no joined clusters; `reconvene up --clusters 3 --dir {self}` makes some"
            ) from None
        except OSError as error:
            raise Rejected(f"{path}: can't be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
            raise Malformed(f"{path}: {error}") from None
        if choices.schema != _SCHEMA:
            raise Malformed(f"{path}: `schema` is {choices.schema!r}; expected {_SCHEMA}")
        return choices

    def save(self, choices: DomainChoices) -> None:
        replace_file(self.directory / _FILE, to_toml(msgspec.to_builtins(choices)).encode())
