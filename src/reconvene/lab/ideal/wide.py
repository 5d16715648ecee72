"""Ideal domains: what can happen to clusters under a level above. `wide_run` makes random runs of it.

Each level is an ideal group, whose nodes do as they are told: there is no protocol that could lose something.
"""

from reconvene.lab.ideal.evs import AGREED, CAUSAL, FIFO, SAFE
from reconvene.lab.ideal.wide_parts import WORLD, IdealParts
from reconvene.lab.ideal.wide_state import Crossing, Item, Message, Part, Site
from reconvene.trace.events import Row

__all__ = ["WORLD", "IdealDomains"]


class IdealDomains(IdealParts):
    def send(self, node: str, service: str, group: str, scope: str) -> None:
        site = self.sites[node]
        part = site.part
        assert part is not None
        if site.kind != "regular":
            return
        site.sent += 1
        held_before = any(
            each.life == (node, site.inc) and each.held
            for each in (*part.outgoing, *(m for crossing in part.unconfirmed for m in crossing.messages))
        ) or any(
            item.message is not None and item.message.life == (node, site.inc) and item.message.held
            and place not in site.taken
            for place, item in enumerate(part.log)
        )  # fmt: skip
        leaves = scope == "wide" and self.tree.lets_out(group, site.domain)
        if held_before and service != FIFO:
            scope, leaves, group = "wide", True, "bank"
        past = frozenset(site.fifo if service == FIFO else site.known)
        held = leaves and (service in (AGREED, SAFE) or (service == CAUSAL and held_before))
        message = Message(f"{node}:{site.inc}:{site.sent}", (node, site.inc), service, group, scope, past, held)
        (site.fifo if service == FIFO else site.known).add(message.id)
        self._row(site, "send", site.conf, msg=message.id, service=service, group=group, scope=scope)
        self.levels[site.domain].cast(site.name, service)
        if leaves:
            part.outgoing.append(message)
        if held:
            site.held.append(message)
        else:
            self.at_once[site.domain].add(message.id)
            part.log.append(Item([], message))

    def cross(self, part: Part, crash: bool = False) -> None:
        """The representative crosses some of what waits; it may crash before that leaves."""
        if part.rep is None or not part.outgoing or not self._is_whole(part):
            return
        count = self.random.randint(1, len(part.outgoing))
        messages, part.outgoing = part.outgoing[:count], part.outgoing[count:]
        cross = self.levels[part.domain].cast(part.rep, SAFE)
        crossing = Crossing(part.conf, part.crosses, cross, messages)
        part.crosses += 1
        part.unconfirmed.append(crossing)
        if crash:
            self.crash(self._site(part, part.rep))
        else:
            self._leave(part, crossing)

    def bring(self, part: Part, most: int) -> None:
        """The representative brings in some of what its gateway saw."""
        if part.rep is None or not self._is_whole(part):
            return
        stream = self._stream(part)
        for row in stream[part.pointer : part.pointer + most]:
            if row.kind == "conf":
                part.turn = str(row.conf)
                if row.conf_kind == "regular":
                    self._placed(part.turn, row.members or [])
                place = self._place_at(stream, part.pointer + (row.conf_kind == "regular"))
                part.log.append(Item(place, conf=row, index=part.pointer))
            else:
                self._bring_in(part, row)
            part.pointer += 1
            part.line = self._place_at(stream, part.pointer)

    def _bring_in(self, part: Part, row: Row) -> None:
        rep = part.rep
        assert rep is not None
        origin, crossing, fresh, place = self.crossings[str(row.msg)]
        if place <= part.line:
            return  # a gateway that was behind when it took over
        ids = [message.id for message in crossing.messages]
        self._row(
            self._site(part, rep), "in", part.conf,
            view=part.term, msg=row.msg, ts=place, sender=origin, reg=crossing.conf, pos=crossing.pos, members=ids,
        )  # fmt: skip
        self.levels[part.domain].cast(rep, AGREED)
        for k, message in enumerate(fresh):
            if origin == part.domain or self.tree.passes(message.group, origin, part.domain):
                part.log.append(Item([*place, k], message, index=part.pointer))
        part.unconfirmed = [each for each in part.unconfirmed if each is not crossing]

    def step(self, site: Site, most: int) -> None:
        """The site takes some of what its part has, in any allowed order."""
        for _ in range(most):
            ready = self._ready(site)
            if not ready:
                return
            self._take(site, ready[0] if self.random.random() < 0.6 else self.random.choice(ready))

    def _ready(self, site: Site) -> list[int]:
        part = site.part
        assert part is not None
        ready: list[int] = []
        waiting: set[str] = set()
        blocked = False
        for place, item in enumerate(part.log):
            if place in site.taken:
                continue
            message = item.message
            allowed = not (blocked and item.is_ordered) and not (message is not None and message.past & waiting)
            blocked = blocked or item.is_ordered
            if message is not None:
                waiting.add(message.id)
            if allowed:
                ready.append(place)
        return ready

    def _take(self, site: Site, place: int) -> None:
        part = site.part
        assert part is not None
        site.taken.add(place)
        item = part.log[place]
        if 0 <= item.index < site.index:
            return  # it had that before it came
        if item.conf is not None:
            reg = site.root if item.conf.conf_kind == "transitional" else None
            self._enter(site, str(item.conf.conf), item.place, self._domains_of(item.conf), reg)
            return
        message = item.message
        assert message is not None
        if message.id in site.got or message.id in site.skip:
            return
        self._deliver(site, message, item.place)

    def finish(self, part: Part) -> None:
        """All sites of the part that are up take everything."""
        for name in part.members:
            site = self._site(part, name)
            if site.part is part and self.levels[part.domain].nodes[name].conf is not None:
                self.step(site, len(part.log) + 1)

    def regroup(self, domain: str) -> None:
        """A cluster's configurations change."""
        for part in self.parts:
            if part.domain == domain:
                self.finish(part)
        self.levels[domain].regroup()
        here = {self.levels[domain].conf_of(name).id for name in self._up(domain)}
        self._form(domain)
        self.parts = [part for part in self.parts if part.domain != domain or part.conf in here]

    def hand_over(self, part: Part) -> None:
        others = [
            name for name in self.tree.domains[part.domain].gateways if name in part.members and name != part.rep
        ]
        if others and self._is_whole(part):
            self.finish(part)
            self._seat(part, others[0], part)

    def crash(self, site: Site) -> None:
        level = self.levels[site.domain]
        level.crash(site.name)
        self._row(site, "fail", site.conf)
        if site.name in self.tree.domains[site.domain].gateways:
            self.world.crash(f"{site.domain}.{site.name}")
        site.part = None

    def restart(self, site: Site) -> None:
        if site.name in self.tree.domains[site.domain].gateways:
            self.world.restart(f"{site.domain}.{site.name}")
        self.levels[site.domain].restart(site.name)
        fresh = Site(site.name, site.domain, site.inc + 1, rows=site.rows)
        self.sites[site.node] = fresh
        self._form(site.domain)

    def tell_lost(self) -> None:
        """Someone learns that a majority of a cluster dropped a site."""
        if not self.dropped:
            return
        domain, conf, gone = self.random.choice(self.dropped)
        sites = [site for site in self.sites.values() if site.part is not None and site.domain != domain]
        if sites:
            site = self.random.choice(sites)
            self._row(site, "lost", site.conf, sender=f"{domain}/{gone}", reg=conf)
