"""What operators do with the log's replicas: add, remove, replace and give up; begin a log."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from reconvene.corel.replica import Replica
from reconvene.corel.replicas.sets import ReplicaSet
from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.log.status import losses

__all__ = ["Administration"]

_CHANGE_S = 5.0
"""How long a change of the replicas waits for a primary component: each change makes a new configuration."""


class Administration:
    """`check` raises Unavailable if the log accepts no messages now. `wake` asks for a turn. `ordered` waits until
    this site's message with that counter has its position."""

    def __init__(
        self,
        replica: Replica,
        check: Callable[[], None],
        wake: Callable[[], None],
        ordered: "Callable[[int], asyncio.Future[int]]",
    ) -> None:
        self._replica = replica
        self._check = check
        self._wake = wake
        self._ordered = ordered
        self._turned: list[asyncio.Future[None]] = []
        """Changes that could not be proposed yet."""

    def after_turn(self) -> None:
        """Retries the changes that could not be proposed before this turn."""
        turned, self._turned = self._turned, []
        for future in turned:
            if not future.done():
                future.set_result(None)

    def change_replicas(
        self, add: str | None, remove: str | None, quorum: dict[str, object] | None
    ) -> "asyncio.Future[int]":
        changed = partial(self._changed, add, remove, quorum)
        changed()  # refuses an invalid change at once
        return asyncio.get_running_loop().create_task(self._change(changed))

    async def _change(self, changed: Callable[[], ReplicaSet]) -> int:
        """Waits a while if the replicas can't be changed now, for example just after another change."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _CHANGE_S
        while True:
            replicas = changed()
            try:
                counter = self._replica.propose(replicas)
            except Unavailable:
                if loop.time() >= give_up_at:
                    raise
            else:
                self._wake()
                return await self._ordered(counter)
            turned: asyncio.Future[None] = loop.create_future()
            self._turned.append(turned)
            await asyncio.wait([turned], timeout=give_up_at - loop.time())

    def _changed(self, add: str | None, remove: str | None, quorum: dict[str, object] | None) -> ReplicaSet:
        self._check()
        replicas, sites = self._replica.replicas, self._replica.sites
        if add is not None and add not in sites:
            raise Rejected(f"replicas: {add} is not a site of this cluster; expected one of {', '.join(sites)}")
        if add is not None and remove is not None:
            return replicas.replaced(remove, add, quorum)
        if add is not None:
            return replicas.added(add, quorum)
        if remove is not None:
            return replicas.removed(remove, quorum)
        if quorum is not None:
            return replicas.with_quorum(quorum)
        raise Rejected("replicas: expected one to add or to remove, or a quorum")

    def init(self, without: Sequence[str]) -> None:
        self._check()
        self._replica.init(without)
        self._wake()

    def losses(self, lost: Sequence[str]) -> dict[str, object]:
        self._given_up(lost)
        return losses(self._replica, lost)

    def whatif(self, lost: Sequence[str]) -> dict[str, object]:
        return self._replica.whatif(lost)

    def force_lost(self, lost: Sequence[str]) -> None:
        self._check()
        self._replica.force(self._given_up(lost))
        self._wake()

    def _given_up(self, lost: Sequence[str]) -> ReplicaSet:
        """The set without the lost replicas. Raises Rejected if they need not be given up."""
        name = self._replica.name
        if name in lost:
            raise Rejected(f"replicas: {name} is not lost: it answers")
        here = [name for name in lost if name in self._replica.participants]
        if here:
            raise Rejected(f"replicas: {', '.join(here)}: not lost, but in this configuration")
        forced = self._replica.replicas.forced_without(lost)
        if self._replica.would_order(lost):
            raise Rejected("replicas: the others are a quorum without them: remove them by a change instead")
        return forced
