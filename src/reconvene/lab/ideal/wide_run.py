"""Random correct runs of ideal domains. Tests verify them, or break them first."""

from msgspec import structs

from reconvene.lab.ideal.evs import AGREED, CAUSAL, FIFO, SAFE
from reconvene.lab.ideal.wide import WORLD, IdealDomains
from reconvene.lab.ideal.wide_state import Site
from reconvene.trace.domains import Domains, WideTrace
from reconvene.trace.events import SCHEMA, Run
from reconvene.trace.reader import Trace

__all__ = ["random_wide_run"]

GROUPS = ("bank", "bank", "bank", "shop", "home")


class _RandomRun(IdealDomains):
    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._act(self.random.random())

    def _act(self, draw: float) -> None:
        random = self.random
        up = [site for site in self.sites.values() if site.part is not None]
        down = [site for site in self.sites.values() if site.part is None]
        part = random.choice(self.parts) if self.parts else None
        if draw < 0.35 and up:
            self._send_any(random.choice(up))
        elif draw < 0.55 and up:
            self.step(random.choice(up), random.randint(1, 4))
        elif draw < 0.67 and part:
            self.cross(part, random.random() < 0.1)
        elif draw < 0.84 and part:
            self.bring(part, random.randint(1, 3))
        elif draw < 0.86 and len(up) > 1:
            self.crash(random.choice(up))
        elif draw < 0.89 and down:
            self.restart(random.choice(down))
        elif draw < 0.91:
            self._split()
        elif draw < 0.95:
            self.regroup(random.choice(self.tree.leaves))
        elif draw < 0.97:
            self.world.regroup()
        elif draw < 0.98 and part:
            self.hand_over(part)
        else:
            self.tell_lost()

    def _send_any(self, site: Site) -> None:
        for _ in range(self.random.randint(1, 2)):
            service = self.random.choice((FIFO, CAUSAL, AGREED, SAFE))
            scope = "cluster" if self.random.random() < 0.15 else "wide"
            self.send(site.node, service, self.random.choice(GROUPS), scope)

    def _split(self) -> None:
        level = self.levels[self.random.choice([*self.tree.leaves, WORLD])]
        level.parts = level._split() if self.random.random() < 0.6 else [list(level.nodes)]

    def settle(self) -> None:
        for site in list(self.sites.values()):
            if site.part is None:
                self.restart(site)
        for level in self.levels.values():
            level.parts = [list(level.nodes)]
        self.world.regroup()
        for domain in self.tree.leaves:
            self.regroup(domain)
        for _ in range(4):
            for conf in {node.conf.id: node.conf for node in self.world.nodes.values() if node.conf}.values():
                self.world.flush(conf)
            for part in self.parts:
                while part.outgoing:
                    self.cross(part)
                self.bring(part, len(self._stream(part)))
        for conf in {node.conf.id: node.conf for node in self.world.nodes.values() if node.conf}.values():
            self.world.flush(conf)
        for part in self.parts:
            self.bring(part, len(self._stream(part)))
            self.finish(part)
        for level in self.levels.values():
            for conf in {node.conf.id: node.conf for node in level.nodes.values() if node.conf}.values():
                level.flush(conf)

    def trace(self, settled: bool) -> WideTrace:
        levels = {}
        for name, level in self.levels.items():
            levels[name] = Trace(structs.replace(level.meta(settled), run=name), level.rows())
        down = sorted(f"{site.domain}/{site.name}" for site in self.sites.values() if site.part is None)
        run = f"ideal-wide-{self.seed}"
        domains = Domains(
            schema=SCHEMA,
            run=run,
            seed=self.seed,
            settled=settled,
            components=[self.tree.leaves] if settled else [],
            down=down,
            domains=self.domains,
        )
        wide = Run(
            schema=SCHEMA,
            run=run,
            nodes=self.tree.nodes,
            stack="wide",
            order="atop",
            seed=self.seed,
            settled=settled,
            components=[],
            down=down,
            quorum={"kind": "majority"},
        )
        return WideTrace(domains, levels, Trace(wide, {node: site.rows for node, site in self.sites.items()}))


def random_wide_run(seed: int, steps: int = 120, settled: bool | None = None) -> WideTrace:
    """A run with crashes, split clusters, partitions above and hand-overs."""
    domains = _RandomRun(seed)
    for level in domains.levels.values():
        level.regroup()
    for domain in domains.tree.leaves:
        domains._form(domain)
    domains.run(steps)
    settle = domains.random.random() < 0.5 if settled is None else settled
    if settle:
        domains.settle()
    return domains.trace(settle)
