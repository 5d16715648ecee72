"""What a scenario of stack `isis` has besides the others: processes, and what they do."""

from msgspec import Struct

__all__ = [
    "Cast",
    "Casting",
    "Flush",
    "IsisVerb",
    "Join",
    "Kill",
    "Label",
    "Leave",
    "ProcessPlan",
    "Rank",
    "Watch",
    "home",
]

Names = tuple[str, ...]
Label = None | str | dict[str, int]
"""None: the default label. An empty table: unordered."""


def home(process: str) -> tuple[str, str]:
    """The node and the name of a process that is written NODE.NAME; a node's name may have dots."""
    node, _, name = process.rpartition(".")
    return node, name


class ProcessPlan(Struct, frozen=True):
    """A process that is there whenever its node starts."""

    node: str
    name: str
    groups: Names = ()
    """It joins these as soon as it can."""
    replies: bool = False
    """It answers casts that ask for replies; else its site answers with nothing."""
    state: bool = False
    """It gives and takes state."""

    @property
    def written(self) -> str:
        return f"{self.node}.{self.name}"


class Casting(Struct, frozen=True):
    """How something is cast."""

    kind: str
    """cbcast, abcast or gbcast."""
    to: str | Names
    """A group, or processes."""
    size: int = 64
    label: Label = None
    """Of an ABCAST None or its text; a GBCAST has none."""
    causal: bool = False
    """A causal ABCAST."""
    replies: int = 0
    """-1: of all."""
    scope: str = "cluster"
    """`wide`: to processes of any cluster, where there are several."""


class Join(Struct, frozen=True):
    process: str
    group: str


class Leave(Struct, frozen=True):
    process: str
    group: str


class Kill(Struct, frozen=True):
    """These processes die; they begin again when their nodes restart."""

    processes: Names


class Cast(Struct, frozen=True):
    process: str
    casting: Casting
    count: int = 1


class Flush(Struct, frozen=True):
    process: str


class Rank(Struct, frozen=True):
    process: str
    group: str
    order: Names


class Watch(Struct, frozen=True):
    """A process watches another one: of another cluster, where there are several. Files of stack isis have no such
    verb: the profile draws it."""

    process: str
    watched: str


IsisVerb = Join | Leave | Kill | Cast | Flush | Rank | Watch
