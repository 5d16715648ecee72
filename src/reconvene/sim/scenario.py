"""What a scenario file says, once it is known to be well formed. sim.parse reads one."""

from pathlib import Path

from msgspec import Struct, field

from reconvene.corel.replicas.sets import MAJORITY
from reconvene.ids import Service
from reconvene.quorum import Spec
from reconvene.sim.conditions import Changes, Conditions
from reconvene.sim.isis_scenario import Casting, IsisVerb, ProcessPlan
from reconvene.sim.wide_scenario import DEFAULT_GROUP, DomainPlan, Handover, Split

__all__ = [
    "FAULTS",
    "ISIS_FAULTS",
    "LIST_FAULTS",
    "WIDE_FAULTS",
    "AddSites",
    "Append",
    "ChaosPlan",
    "Crash",
    "Cut",
    "Heal",
    "Load",
    "Mend",
    "NetworkChange",
    "OperatorPlan",
    "Partition",
    "Pause",
    "RemoveSites",
    "Restart",
    "Resume",
    "Scenario",
    "Send",
    "Step",
    "Verb",
]

FAULTS = (
    "partition",
    "crash",
    "cut",
    "pause",
    "loss",
    "duplicate",
    "reorder",
    "delay",
    "clock",
    "disk",
    "full",
    "sync",
)
"""What [chaos] can do …"""
LIST_FAULTS = (*FAULTS, "sites")
"""… and, of stacks evs and corel: sites are added and removed …"""
ISIS_FAULTS = (*FAULTS, "kill")
"""… and, of stack isis …"""
WIDE_FAULTS = (*FAULTS, "gateway", "split")
"""… and of stack wide."""

Names = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]


class Partition(Struct, frozen=True):
    components: tuple[Names, ...]


class Heal(Struct, frozen=True):
    pass


class Cut(Struct, frozen=True):
    pairs: Pairs


class Mend(Struct, frozen=True):
    pairs: Pairs


class Crash(Struct, frozen=True):
    nodes: Names


class Restart(Struct, frozen=True):
    nodes: Names


class Pause(Struct, frozen=True):
    nodes: Names


class Resume(Struct, frozen=True):
    nodes: Names


class AddSites(Struct, frozen=True):
    """To the list of sites."""

    nodes: Names


class RemoveSites(Struct, frozen=True):
    nodes: Names


class NetworkChange(Struct, frozen=True):
    changes: Changes


class Send(Struct, frozen=True):
    node: str
    service: Service
    count: int
    size: int
    group: str = DEFAULT_GROUP
    """Stack wide: to whom …"""
    scope: str = "wide"
    """… and whether it leaves the cluster: `wide` or `cluster`."""


class Append(Struct, frozen=True):
    """To the log."""

    node: str
    count: int
    size: int


Verb = (
    Partition | Heal | Cut | Mend | Crash | Restart | Pause | Resume | NetworkChange | Send | Append | IsisVerb
    | Split | Handover | AddSites | RemoveSites
)  # fmt: skip


class Step(Struct, frozen=True):
    time_ns: int
    verb: Verb
    place: str
    """Where in the file it stands, for messages."""


class Load(Struct, frozen=True):
    nodes: Names
    service: Service | None
    """None: they are appended to the log."""
    rate: float
    """Messages a second from each of the nodes."""
    size: int
    from_ns: int
    until_ns: int
    processes: Names = ()
    """Stack isis: these cast, instead of nodes …"""
    casting: Casting | None = None
    """… what this says."""
    group: str = DEFAULT_GROUP
    """Stack wide, as of `Send` …"""
    scope: str = "wide"
    """… and this."""


class ChaosPlan(Struct, frozen=True):
    from_ns: int
    until_ns: int
    faults: Names
    mean_gap_ns: int
    ambush: float = 0.0
    """How many of the faults wait for a node to enter one of the protocol's short steps. Scenario files have none:
    there the faults follow from the seed and the time alone, whatever the load."""
    ambush_steps: Names = ()
    """Each of them waits for one of these, if there are any; else for whichever comes next. `log: change`: a change
    of the replicas is green somewhere for the first time."""
    standing: tuple[tuple[str, str], ...] = ()
    """Kinds of fault, and steps: besides, a fault of each kind waits for that step from the beginning, until a node
    enters it."""
    shrink: float = 0.0
    """How many of the partitions divide one component further, instead of all sites anew. Scenario files have none of
    these either."""


class OperatorPlan(Struct, frozen=True):
    """What an operator of the log does while all else goes on. Scenario files have none."""

    from_ns: int
    until_ns: int
    mean_gap_ns: int
    changes: Names = ()
    """Each time one of `switch`, `add`, `remove`: another quorum, of any kind; one replica more or less."""
    lost: Names = ()
    """These lose their disks …"""
    lost_ns: int = 0
    """… from then on, as soon as nothing is lost with them that only they have ordered."""
    torn: bool = False
    """They wait until another replica has committed to their last primary component, and does not know that it was
    established."""
    force: bool = False
    """The others go on without them by force, if they can't otherwise."""


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    nodes: Names
    """Sorted."""
    seed: int
    stack: str
    """evs; corel: with the log; isis: with process groups; wide: clusters that are joined by their gateways."""
    order: str
    duration_ns: int
    settle_ns: int
    final: tuple[Names, ...]
    """The components of the network in settle."""
    final_down: Names
    conditions: Conditions
    links: dict[tuple[str, str], Changes]
    steps: tuple[Step, ...]
    """By time, and in the file's order where times are equal."""
    loads: tuple[Load, ...]
    chaos: ChaosPlan | None
    quorum: Spec = field(default_factory=lambda: MAJORITY)
    """The log's."""
    operator: OperatorPlan | None = None
    processes: tuple[ProcessPlan, ...] = ()
    followers: Names = ()
    """Of the log: processes beside the nodes, sorted …"""
    outposts: Names = ()
    """… and these."""
    domains: tuple[DomainPlan, ...] = ()
    """Stack wide: the clusters; `nodes` are then DOMAIN/SITE of all of them …"""
    between: Changes = field(default_factory=Changes)
    """… and this is what the network between them is like, over `conditions`."""
    isis: bool = False
    """Stack wide: `processes` are those of ISIS, and cast within their clusters and between them."""
    patience_ns: int | None = None
    """Stack wide: how long a gateway may be silent in the cluster above; None: as in a cluster."""
    path: Path | None = None
    sites: Names | None = None
    """Sorted: the list of sites at the start, where it is not `nodes`."""

    @property
    def changing(self) -> bool:
        """The list of sites is not the same from the start to the end, or may not be."""
        return (
            self.sites is not None
            or any(isinstance(step.verb, AddSites | RemoveSites) for step in self.steps)
            or (self.chaos is not None and "sites" in self.chaos.faults)
        )

    @property
    def everyone(self) -> Names:
        """All that crash, part and pause."""
        return (*self.nodes, *self.followers, *self.outposts)

    @property
    def unstarted(self) -> frozenset[str]:
        """Nodes crashed at 0s: they have not started yet."""
        return frozenset(
            node
            for step in self.steps
            if step.time_ns == 0 and isinstance(step.verb, Crash)
            for node in step.verb.nodes
        )
