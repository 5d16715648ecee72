"""A trace's rows, as docs/traces.md describes them: one schema for simulator, real sites and checks."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

__all__ = ["CHANGED", "SCHEMA", "WIDE_STACK", "Int", "Row", "Run", "is_changed"]

SCHEMA = 2
"""2: the layer of groups with the filter is `vs`, and its rows name their `process`. In 1 these were `isis` and
`label`."""

CHANGED = "changed"
"""A key of `quorum` in run.json."""

WIDE_STACK = "wide"
"""The `stack` of the part of a trace of domains that has the rows of layer `wide`."""

Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""As every form of a trace can hold it: 64 bits, with a sign."""


class Row(Struct, omit_defaults=True, kw_only=True, gc=False):
    """One event at one node. Fields that an event does not have are left out of the file."""

    node: str
    inc: Int
    n: Int
    t: Int
    layer: str
    kind: str
    conf: str | UnsetType = UNSET
    conf_kind: str | UnsetType = UNSET
    members: list[str] | UnsetType = UNSET
    reg: str | UnsetType = UNSET
    msg: str | UnsetType = UNSET
    sender: str | UnsetType = UNSET
    service: str | UnsetType = UNSET
    ts: list[Int] | UnsetType = UNSET
    pos: Int | UnsetType = UNSET
    primary: Int | UnsetType = UNSET
    group: str | UnsetType = UNSET
    view: Int | UnsetType = UNSET
    process: str | UnsetType = UNSET
    label: str | UnsetType = UNSET
    dests: list[str] | UnsetType = UNSET
    attempt: Int | UnsetType = UNSET
    replies: Int | UnsetType = UNSET
    scope: str | UnsetType = UNSET


class Run(Struct, kw_only=True, omit_defaults=True):
    """run.json."""

    schema: int
    run: str
    nodes: list[str]
    stack: str
    order: str
    seed: Int
    settled: bool
    components: list[list[str]]
    down: list[str]
    quorum: dict[str, object]
    followers: list[str] = field(default_factory=list)
    """Of the log: they keep its green prefix, and are not in `nodes` …"""
    outposts: list[str] = field(default_factory=list)
    """… nor are these, which accept messages for it."""

    @property
    def recorded(self) -> list[str]:
        """Everyone who has a file."""
        return [*self.nodes, *self.followers, *self.outposts]


def is_changed(run: Run) -> bool:
    """Were the log's replicas or its quorum changed, so that `quorum` says only what they were at first?"""
    return run.quorum.get(CHANGED) is True
