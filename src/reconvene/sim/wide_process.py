"""One process of a site in one of several clusters: its site there and, if it is a gateway, its site in the cluster
above. Both live and die together; each has a disk and a network of its own."""

from collections import deque
from collections.abc import Callable, Iterable

from reconvene.domains.port import Site as DomainSite
from reconvene.errors import ReconveneError
from reconvene.ids import Service
from reconvene.sim.core import SiteLike
from reconvene.sim.isis_application import NodeProcesses
from reconvene.sim.node import Node
from reconvene.sim.wide_scenario import domain_of
from reconvene.sim.wide_site import UpperSite, WideSite
from reconvene.trace.wide_recorder import WideRecorder

__all__ = ["WideProcess"]


class WideProcess:
    """What a node is in a single cluster."""

    log = None
    """It has none."""

    def __init__(self, name: str, node: Node, upper: Node | None) -> None:
        self.name = name
        self.domain, self.site_name = domain_of(name)
        self.node = node
        self.upper = upper
        self.nodes = (node,) if upper is None else (node, upper)
        self.before_start: Callable[[], None] = _nothing
        """Makes what its sites share, anew for each start."""
        self.starting = False
        """Not all its sites are up yet."""
        self.submitted = 0
        """Messages of the application that its site has taken."""
        self.joins: tuple[tuple[str, str], ...] = ()
        """Group and process: who joins what whenever it starts."""
        self._recorder: WideRecorder
        self._outbox: deque[tuple[Service, str, bool, bytes]] = deque()
        for one in self.nodes:
            one.process = self
            one.on_crash = self._crashed

    def join(self, recorder: WideRecorder) -> None:
        """Completes its making."""
        self._recorder = recorder
        for node in self.nodes:
            node.record_wide(recorder)

    # -- what it is

    @property
    def processes(self) -> NodeProcesses | None:
        """Of ISIS, if it has any."""
        return self.node.processes

    @property
    def up(self) -> bool:
        return self.node.up

    @property
    def paused(self) -> bool:
        return self.node.paused

    @property
    def doomed(self) -> bool:
        return any(node.doomed for node in self.nodes)

    @property
    def domain_site(self) -> DomainSite | None:
        """Its part in the tree of clusters, while it is up."""
        site = self.node.site
        return site.domain if isinstance(site, WideSite) else None

    @property
    def site(self) -> SiteLike | None:
        return self.node.site

    @property
    def ordinal(self) -> int:
        """In its own cluster."""
        return self.node.ordinal

    @property
    def step(self) -> str:
        return self.node.step

    @property
    def steps(self) -> list[str]:
        """All that it is in the midst of: of a gateway its step in its cluster, and that of its site above."""
        if self.upper is None:
            return [self.node.step]
        return [self.node.step, f"gateway: {self._gateway_step()}", f"upper: {self._upper_step(self.upper)}"]

    def _gateway_step(self) -> str:
        """The site's own while its cluster changes its configuration, then what it does for the cluster."""
        site, step = self.domain_site, self.node.step
        if site is None or site.representing is None or not step.startswith("wide: "):
            return step
        if not site.is_open:
            return site.phase.value
        if not site.representing.active:
            return "standby"
        if site.representing.offers:
            return "crossing"
        return "unconfirmed" if any(map(site.home.unconfirmed, site.home.crossings)) else "idle"

    @staticmethod
    def _upper_step(node: Node) -> str:
        site, step = node.site, node.step
        return "seeing" if isinstance(site, UpperSite) and step == "operational" and not site.formed else step

    # -- what befalls it

    def start(self) -> None:
        self.before_start()
        self.starting = True
        for node in self.nodes:
            node.start()
        self.starting = False
        for group, process in self.joins:
            self.change_group(group, process, joins=True)

    def crash(self) -> None:
        self.node.crash()

    def _crashed(self) -> None:
        for node in self.nodes:
            if node.up:
                node.crash()  # calls this again, when all are down
                return
        self._outbox.clear()
        self._recorder.end(self.node.now, "fail")

    def doom(self, copies: int | None) -> None:
        """Whichever of its sites sends next."""
        for node in self.nodes:
            node.doom(copies)

    def doom_sync(self, before: Callable[[], None], *, completes: bool) -> None:
        """Whichever of its sites writes next."""
        for node in self.nodes:
            node.doom_sync(before, completes=completes)

    def pause(self) -> None:
        for node in self.nodes:
            if not node.paused:  # it may be about to go on after a pause, site by site
                node.pause()

    def resume(self) -> None:
        for node in self.nodes:
            if node.up and node.paused:  # the first of them may have crashed the process
                node.resume()
            if self.node.paused:
                return  # or a fault that waited for its first step has paused it again

    def jump(self, by_ns: int) -> None:
        for node in self.nodes:
            node.jump(by_ns)

    def stall(self, for_ns: int) -> None:
        for node in self.nodes:
            node.disk.stall(for_ns)

    def refuse(self, for_ns: int) -> None:
        for node in self.nodes:
            node.disk.refuse(for_ns)

    def drop_waiting(self) -> int:
        dropped = len(self._outbox)
        self._outbox.clear()
        return dropped + self.node.drop_waiting()

    # -- what it does

    def hand_over(self) -> None:
        site = self.domain_site
        if site is not None:
            site.hand_over()
            self.node.wake()

    def change_group(self, group: str, process: str, *, joins: bool) -> bool:
        """One of its processes joins or leaves a wide group. Returns whether the site took that."""
        site = self.domain_site
        if site is None or self.paused:
            return False
        try:
            (site.join if joins else site.leave)(group, f"{self.site_name}.{process}")
        except ReconveneError:
            return False
        self.node.wake()
        return True

    def say(self, service: Service, payloads: Iterable[bytes], group: str, scope: str) -> None:
        """From the application. What there is no room for waits, and is lost at a crash."""
        self._outbox.extend((service, group, scope == "wide", payload) for payload in payloads)
        if not self.paused:
            self._pump()
            self.node.wake()

    def _pump(self) -> None:
        site = self.domain_site
        while self._outbox and site is not None and site.room() > 0:
            site.send(*self._outbox.popleft())
            self.submitted += 1

    def exchange(self, node: Node) -> None:
        """One of its sites has ended a turn: the other one gets what that brought for it."""
        self._pump()
        upper = None if self.upper is None else self.upper.site
        if self.upper is None or not isinstance(upper, UpperSite):
            return
        layer = upper.upper
        if node is self.upper:
            if layer.changed:
                layer.changed = False
                self.node.wake()
        elif layer.gateway.wants_turn:
            self.upper.wake()


def _nothing() -> None:
    """Its sites share nothing."""
