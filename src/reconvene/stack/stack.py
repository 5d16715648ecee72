"""A site's core as its shell sees it: every input goes into this object, and `flush` ends the turn.

    inputs      receive, synced, tick, leave; requests of processes through `groups`; requests of the log and of other
                layers through those, which the maker of the stack has at hand
    output      one `Turn` (stack.turn)
    deadline    call me again no later than this

The layers, bottom up: the site (configurations, delivery), groups (processes), then layers beside each other
(`stack.layer`): the log, and others. A stack without groups is a bare site: what the simulator runs as `evs`.

No input, no output, no clock: the shell is the engine of a real site, or a node of the simulator.

A turn that concerns channels alone (`stack.layer.Apart`), such as that of a lone cast, leaves out the site, the
groups and the other layers: nothing has come for them, and none of them is due.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reconvene.core.effects import Effects, LayerEvent
from reconvene.core.groups.groups import Groups
from reconvene.core.site import Site
from reconvene.stack.layer import Apart, Bringing, Layer, Outlet
from reconvene.stack.turn import Turn, Write
from reconvene.storage.tables import Op, Put

__all__ = ["Stack"]


class _Sync(NamedTuple):
    """What a token of the stack's stands for."""

    layer: Layer | None
    """None: the site."""
    tokens: list[int]
    """The layer's own."""


class Stack:
    def __init__(self, site: Site, groups: Groups | None = None, layers: Sequence[Layer] = ()) -> None:
        assert groups is not None or not layers, "other layers speak beside groups"
        assert groups is None or groups.site is site, "of the same site"
        self.site = site
        """For questions. Its inputs come through the stack."""
        self._groups = groups
        self._layers = tuple(layers)
        self._effects = Effects()
        """Of the turn that is being ended."""
        self._shares = () if groups is None else tuple((layer, self._share(groups, layer)) for layer in layers)
        """Each layer, with the events that are for it."""
        self._outlet = None if groups is None else Outlet(groups)
        self._owners = {kind: layer for layer in layers for kind in layer.kinds}
        self._token = 0
        self._syncs: dict[int, _Sync] = {}
        """Writes under way, by token."""
        self._apart: tuple[Layer, ...] = tuple(layer for layer in layers if isinstance(layer, Apart))
        self._others = tuple(layer for layer in layers if not isinstance(layer, Apart))
        self._stirred = True
        """Since the last whole turn a sync was reported, or a layer is damaged."""
        self._idle_until = 0
        """Until then, the site and the other layers want no turn, unless something comes for them."""
        self._whole = True
        """The last turn was a whole one."""

    def _share(self, groups: Groups, layer: Layer) -> list[LayerEvent]:
        if not isinstance(layer, Bringing):
            return groups.share(layer.kinds)
        bringing: Bringing = layer

        def ask() -> bytes:
            self._return_unsent()
            layer.take(share)
            share.clear()
            return bringing.brings()

        share = groups.share(layer.kinds, ask)
        return share

    # -- what a shell asks

    @property
    def groups(self) -> Groups:
        """Requests of the site's processes, and questions about groups."""
        assert self._groups is not None, "a bare site has no groups"
        return self._groups

    @property
    def incarnation(self) -> int:
        return self.site.incarnation

    @property
    def phase(self) -> str:
        return self.site.phase

    @property
    def step(self) -> str:
        """Where in its phase it is, for the tables of what was tested."""
        return self.site.step

    @property
    def configuration(self) -> str:
        return self.site.configuration

    @property
    def members(self) -> tuple[int, ...]:
        """Of the configuration, by ordinal."""
        return self.site.members

    @property
    def damage(self) -> str | None:
        """Why a layer cannot go on; the site is silent then."""
        for layer in self._layers:
            if layer.damage is not None:
                return layer.damage
        return None

    @property
    def settled(self) -> bool:
        """All that the layers have decided is on stable storage."""
        return all(layer.settled for layer in self._layers)

    @property
    def drained(self) -> bool:
        """All that was accepted is on stable storage, and every member of the configuration has all that was sent."""
        return (self._groups is None or self._groups.drained) and self.site.drained and self.settled

    def deadline(self) -> int:
        """When it wants a turn though nothing happens."""
        at = self._deadline_of_others() if self._whole else self._idle_until
        for layer in self._apart:
            own = layer.deadline()
            if own is not None and own < at:
                at = own
        return at

    def _deadline_of_others(self) -> int:
        at = self.site.deadline()
        for layer in self._others:
            own = layer.deadline()
            if own is not None and own < at:
                at = own
        return at

    # -- inputs

    def receive(self, datagram: bytes, now: int) -> None:
        """One that is malformed or stale is counted and dropped."""
        self.site.receive(datagram, now)

    def synced(self, token: int, now: int) -> None:
        """The write with this token, and all before it, are on stable storage."""
        sync = self._syncs.pop(token)
        self._stirred = True
        for own in sync.tokens:
            if sync.layer is None:
                self.site.synced(own, now)
            else:
                sync.layer.synced(own)

    def tick(self, now: int) -> None:
        """The deadline has come."""
        self.site.tick(now)

    def leave(self, now: int) -> None:
        """The site stops: from now on it reports to hear nobody, so that the others go on without it at once."""
        self.site.leave(now)

    # -- the end of a turn

    def flush(self, now: int, time: int, *, asked: bool = True) -> Turn:
        """Ends the turn. `now`: the site's clock in ns, which never goes back; `time`: ns since 1970. `asked`: since
        the last turn something may have been requested of groups, or of a layer that is not `Apart`."""
        effects = self._effects = Effects()
        groups, outlet = self._groups, self._outlet
        if groups is None or outlet is None:
            self.site.flush(now, effects)
            return self._bundle(effects, now)
        outlet.now = now
        begun: Sequence[Layer] = ()
        if not (asked or self._stirred or self.site.stirred) and now < self._idle_until:
            turn = self._flush_apart(outlet, time)
            if turn is not None:
                return turn
            begun = self._apart
        self._stirred = False
        for layer in self._layers:
            if layer not in begun:
                layer.begin(outlet, time)
        spoken = True
        while spoken:
            groups.flush(now, effects)
            if effects.unsent:
                self._return_unsent()
            for layer, share in self._shares:
                layer.take(share)
                share.clear()
            spoken = False
            for layer in self._layers:
                if layer.speak(outlet):
                    spoken = True
        turn = self._bundle(effects, now)
        self._whole = True
        self._idle_until = self._deadline_of_others()
        return turn

    def _flush_apart(self, outlet: Outlet, time: int) -> Turn | None:
        """None: a layer has something to say to the site, so that all have to take part after all."""
        spoken = False
        for layer in self._apart:
            layer.begin(outlet, time)
            if layer.speak(outlet):
                spoken = True
        if spoken or self.site.stirred:
            return None
        turn = Turn(apart=True)
        for layer in self._apart:
            self._flush_layer(layer, outlet.now, turn)
        self.site.drop_packets()
        self._whole = False
        return turn

    def finish(self) -> Turn:
        """What is still to be written when the site stops: values that wait for another write to go with."""
        turn = Turn()
        for layer in self._layers:
            at = layer.deadline()
            if at is not None and layer.settled:
                self._flush_layer(layer, at, turn)
        return turn

    def _return_unsent(self) -> None:
        unsent = self._effects.unsent
        for layer in self._layers:
            own = [message for message in unsent if self._owners.get(message[1][0]) is layer]
            if own:
                layer.take_back(own)
        unsent.clear()

    def _bundle(self, effects: Effects, now: int) -> Turn:
        turn = Turn(events=effects.events, datagrams=effects.datagrams)
        if effects.persist:
            ops: list[Op] = [Put(persist.key.encode(), persist.value) for persist in effects.persist]
            self._write(turn, ops, _Sync(None, [persist.token for persist in effects.persist]))
        damaged = False
        for layer in self._layers:
            self._flush_layer(layer, now, turn)
            if layer.damage is not None:
                damaged = True
        groups = self._groups
        if groups is not None:
            turn.notes, turn.processes = groups.take_notes(), groups.take()
        self.site.drop_packets()
        if damaged:
            self._stirred = True
            turn.datagrams = []
        return turn

    def _flush_layer(self, layer: Layer, now: int, turn: Turn) -> None:
        write = layer.flush(now, turn)
        if write is not None:
            self._write(turn, write.ops, _Sync(layer, [write.token]))

    def _write(self, turn: Turn, ops: Sequence[Op], sync: _Sync) -> None:
        """Under a token of the stack's own, so that each sync is one input, whatever layer waits for it."""
        self._token += 1
        self._syncs[self._token] = sync
        turn.writes.append(Write(self._token, ops))

    def invariants(self) -> None:
        if self._groups is None:
            self.site.invariants()
        else:
            self._groups.invariants()
        for layer in self._layers:
            layer.invariants()
