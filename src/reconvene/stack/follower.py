"""A site that follows a log: no replica in its own cluster, and a follower of the log of this or another one.

The other sites of its cluster, if it has any, hear the same from it as from a site without the log. What the follower
asks its sources is handed to the shell, which has the connections (`take_actions`).
"""

from collections.abc import Sequence

from reconvene.corel.following.follower import Follower
from reconvene.corel.following.pulling import LinkAction, Pulling
from reconvene.corel.keeping.damage import Damaged
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.stack.layer import Outlet
from reconvene.stack.no_log import NoLog
from reconvene.stack.turn import Turn, Write

__all__ = ["FollowerLayer"]


class FollowerLayer(NoLog):
    def __init__(self, sites: Sequence[str], replicas: ReplicaSet, pulling: Pulling) -> None:
        super().__init__(sites, replicas)
        self.pulling = pulling
        """The shell reports to it what becomes of connections, and what sources answer."""
        self._time = 0
        self._actions: list[LinkAction] = []

    @property
    def follower(self) -> Follower:
        return self.pulling.follower

    def take_actions(self) -> list[LinkAction]:
        """For the connection to a source, in order. They depend on no write."""
        actions, self._actions = self._actions, []
        return actions

    def begin(self, outlet: Outlet, time: int) -> None:
        self._time = time
        if self.damage is None:
            self.pulling.tick(outlet.now)

    def flush(self, now: int, turn: Turn) -> Write | None:
        if self.damage is not None:
            return None
        try:
            ended = self.pulling.flush(now, self._time)
        except Damaged as error:
            self.damage = str(error)
            return None
        turn.log = ended.events
        self._actions += ended.link
        return Write(ended.token, ended.ops) if ended.token else None

    def synced(self, token: int) -> None:
        if self.damage is None:
            try:
                self.pulling.synced(token)
            except Damaged as error:
                self.damage = str(error)

    def deadline(self) -> int | None:
        return None if self.damage is not None else self.pulling.deadline()

    @property
    def settled(self) -> bool:
        return self.follower.settled
