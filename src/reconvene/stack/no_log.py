"""A site that takes no part in the log: it has no replica, and says so in each configuration.

The replicas of a configuration recover once every member has sent its state message. So a site without a replica
sends one too, which says that it keeps nothing. It reads those of the others only to report a replica whose storage
is older than what others know of it, as every site does.
"""

from collections.abc import Sequence

from reconvene.core.effects import Changed, ConfKind, Delivered, LayerEvent
from reconvene.corel.messages import STATE, State, decode, encode
from reconvene.corel.replicas.lineage import behind
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Malformed
from reconvene.ids import Service
from reconvene.stack.layer import Outlet
from reconvene.stack.turn import Turn, Write

__all__ = ["NoLog"]


class NoLog:
    kinds = frozenset((STATE,))
    """All else that replicas send is not handed to it."""

    def __init__(self, sites: Sequence[str], replicas: ReplicaSet) -> None:
        """`sites` by ordinal; `replicas`: those that the site's configuration names."""
        self.damage: str | None = None
        self.behind: dict[str, str] = {}
        """By name: replicas of this configuration whose storage is older than what others know of it, and why."""
        self.malformed = 0
        """State messages that could not be decoded."""
        self._sites = tuple(sites)
        self._state = encode(STATE, _nothing(replicas))
        self._due = False
        """The state message of this configuration is not sent yet."""
        self._members = 0
        self._states: dict[str, State] = {}

    def begin(self, outlet: Outlet, time: int) -> None:
        """Nothing is prepared."""

    def take(self, events: Sequence[LayerEvent]) -> None:
        for event in events:
            if type(event) is Delivered:
                self._take_states(event)
            elif type(event) is Changed and event.kind is not ConfKind.HIDDEN:
                self._due = event.kind is ConfKind.REGULAR
                self._members = len(event.members) if self._due else 0
                self._states.clear()

    def _take_states(self, event: Delivered) -> None:
        for payload in event.payloads:
            try:
                self._states[self._sites[event.sender]] = decode(payload, State)
            except Malformed:
                self.malformed += 1
        if len(self._states) == self._members:
            self.behind = behind(self._states)
            self._states.clear()
            self._members = 0

    def take_back(self, unsent: Sequence[tuple[Service, bytes]]) -> None:
        """The next configuration gets a state message of its own."""

    def speak(self, outlet: Outlet) -> bool:
        if self._due and not outlet.pressed and outlet.submit(Service.AGREED, self._state):
            self._due = False
            return True
        return False

    def flush(self, now: int, turn: Turn) -> Write | None:
        return None

    def synced(self, token: int) -> None:
        raise AssertionError("it writes nothing")

    def deadline(self) -> int | None:
        return None

    @property
    def settled(self) -> bool:
        return True

    def invariants(self) -> None:
        assert not self._members or len(self._states) < self._members


def _nothing(replicas: ReplicaSet) -> State:
    return State(
        keeps=False, identity=b"", replicas=replicas, last_committed_primary=0, last_attempted_primary=0, green=0,
        yellow=0, base=0, has={}, marked=[], identities={}, admitted=False,
    )  # fmt: skip
