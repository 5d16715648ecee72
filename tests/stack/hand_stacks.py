"""Whole stacks on the network of a test: tests/core/hand.py, with a layer on each that follows the lineage."""

from dataclasses import replace

from tests.core.hand import Hand
from tests.stack.following import Following

from reconvene.core.effects import Effects, Persist
from reconvene.core.groups.groups import Groups
from reconvene.core.options import Options
from reconvene.core.site import Site
from reconvene.stack.stack import Stack
from reconvene.storage.tables import Put

__all__ = ["HandStacks"]


class _Driven:
    """A site whose turns are ended through its stack."""

    def __init__(self, site: Site, stack: Stack) -> None:
        self._site = site
        self._stack = stack

    def __getattr__(self, name: str) -> object:
        return getattr(self._site, name)

    def synced(self, token: int, now: int) -> None:
        self._stack.synced(token, now)

    def flush(self, now: int) -> Effects:
        turn = self._stack.flush(now, now)
        self._stack.invariants()
        persist = []
        for write in turn.writes:
            (put,) = write.ops
            assert isinstance(put, Put)
            assert put.value is not None
            persist.append(Persist(write.token, put.key.decode(), put.value))
        return Effects(persist, turn.events, turn.datagrams)


class HandStacks(Hand):
    def __init__(self, names: str, options: Options | None = None) -> None:
        self.layers: dict[str, Following] = {}
        self.stacks: dict[str, Stack] = {}
        super().__init__(names, replace(options or Options(), return_unsent=True))

    def flush(self, name: str) -> None:
        site = self.sites[name]
        if not isinstance(site, _Driven):
            layer = self.layers[name] = Following(name)
            stack = self.stacks[name] = Stack(site, Groups(site, len(self.names)), [layer])
            self.sites[name] = _Driven(site, stack)  # type: ignore[assignment]
        super().flush(name)

    def settle(self, names: str | None = None) -> None:
        """Until these sites are together in a configuration that is used."""
        names = names or self.names
        self.wait_together(names)
        members = tuple(self.ordinal(name) for name in names)
        conf = self.sites[names[0]].configuration
        self.until(
            lambda: all(
                layer.used and (layer.used[-1].conf, layer.used[-1].members) == (conf, members)
                for layer in (self.layers[name] for name in names)
            )
        )

    def settle_alone(self, name: str) -> None:
        """Until it is alone in a configuration."""
        self.wait_together(name)
