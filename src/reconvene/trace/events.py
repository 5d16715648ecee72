"""A trace's rows, as docs/traces.md describes them: one schema for simulator, real sites and checks."""

from msgspec import UNSET, Struct, UnsetType

__all__ = ["SCHEMA", "Row", "Run"]

SCHEMA = 1


class Row(Struct, omit_defaults=True, kw_only=True, gc=False):
    """One event at one node. Fields that an event does not have are left out of the file."""

    node: str
    inc: int
    n: int
    t: int
    layer: str
    kind: str
    conf: str | UnsetType = UNSET
    conf_kind: str | UnsetType = UNSET
    members: list[str] | UnsetType = UNSET
    reg: str | UnsetType = UNSET
    msg: str | UnsetType = UNSET
    sender: str | UnsetType = UNSET
    service: str | UnsetType = UNSET
    ts: list[int] | UnsetType = UNSET
    pos: int | UnsetType = UNSET
    primary: int | UnsetType = UNSET
    group: str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    dests: list[str] | UnsetType = UNSET
    view: int | UnsetType = UNSET


class Run(Struct, kw_only=True):
    """run.json."""

    schema: int
    run: str
    nodes: list[str]
    stack: str
    order: str
    seed: int
    settled: bool
    components: list[list[str]]
    down: list[str]
    quorum: dict[str, object]
