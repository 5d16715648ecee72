"""Real sites connected in memory: every datagram arrives at once."""

from cProfile import Profile
from time import perf_counter_ns

from reconvene.core.effects import Delivered, Effects
from reconvene.core.options import Limits, Options
from reconvene.core.record import boot
from reconvene.core.site import Site
from reconvene.ids import Service

__all__ = ["Wired"]

MS = 1_000_000


class Wired:
    FRAME_BYTES = 60_000
    """As on loopback, so that a hundred messages fit."""
    ROUND_NS = MS // 5

    def __init__(self, size: int, options: Options) -> None:
        options = Options(
            order=options.order, generator=options.generator, policy=options.policy,
            limits=Limits(frame_bytes=self.FRAME_BYTES),
        )  # fmt: skip
        self.now = 1_000 * MS
        self.delivered = 0
        self.sites = [Site(options, ordinal, size, boot(None, ordinal), self.now) for ordinal in range(size)]
        self._queues: list[list[bytes]] = [[] for _ in range(size)]
        while any(len(site.members) < size or site.phase != "operational" for site in self.sites):
            self._idle()
        self.settle()

    def _idle(self) -> None:
        self.now += MS
        for ordinal, site in enumerate(self.sites):
            queue, self._queues[ordinal] = self._queues[ordinal], []
            for data in queue:
                site.receive(data, self.now)
            effects = site.flush(self.now)
            self._perform(effects)
            if effects.persist:
                for write in effects.persist:
                    site.synced(write.token, self.now)
                self._perform(site.flush(self.now))

    def _perform(self, effects: Effects) -> None:
        for destinations, data in effects.datagrams:
            for destination in destinations:
                self._queues[destination].append(data)
        for event in effects.events:
            if type(event) is Delivered:
                self.delivered += len(event.payloads)

    def settle(self) -> None:
        """Runs until everything under way has arrived, and is acknowledged and delivered."""
        for _ in range(100):
            self._idle()

    def play(
        self, payloads: list[bytes], rounds: int, a_turn_each: bool = False, profile: Profile | None = None
    ) -> int:
        """Each site sends a frame of these in each round. Returns the time in ns, without `submit`."""
        spent = 0
        before = self.delivered
        for _ in range(rounds):
            self.now += self.ROUND_NS
            for site in self.sites:
                for payload in payloads:
                    site.submit(Service.AGREED, payload, self.now)
            turns: list[Effects] = []
            if profile is not None:
                profile.enable()
            start = perf_counter_ns()
            self._turns(turns, a_turn_each)
            spent += perf_counter_ns() - start
            if profile is not None:
                profile.disable()
            for effects in turns:
                for event in effects.events:
                    if type(event) is Delivered:
                        self.delivered += len(event.payloads)
        assert self.delivered - before > (rounds - 3) * len(payloads) * len(self.sites) ** 2, "all is delivered"
        return spent

    def _turns(self, turns: list[Effects], each: bool) -> None:
        """A turn takes everything that has arrived and was submitted; or, with `each`, one datagram."""
        now, queues = self.now, self._queues
        for ordinal, site in enumerate(self.sites):
            queue, queues[ordinal] = queues[ordinal], []
            for data in queue:
                site.receive(data, now)
                if each:
                    turns.append(self._flush(site, now))
            if not each or not queue:
                turns.append(self._flush(site, now))

    def _flush(self, site: Site, now: int) -> Effects:
        effects = site.flush(now)
        for destinations, data in effects.datagrams:
            for destination in destinations:
                self._queues[destination].append(data)
        return effects
