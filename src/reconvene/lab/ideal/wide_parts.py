"""Ideal clusters under a level above: their parts, and how these go on from one wide configuration to the next.

A *part* is a local configuration with its representative; it has a log of what its sites see of the wide
configuration, and each site takes from it at its own pace. A part reads what its representative's gateway delivers
above, from where its sites stand. What two parts of a cluster send again is placed once in an upper configuration,
and what its clusters had seen when it began gets no place there.
"""

from random import Random

from msgspec import structs

from reconvene.lab.ideal.evs import FIFO, SAFE, Node
from reconvene.lab.ideal.wide_state import Crossing, Level, Message, Part, Site
from reconvene.trace.domains import Domain, Pass, Tree
from reconvene.trace.events import Row

__all__ = ["WORLD", "IdealParts"]

WORLD = "world"


class IdealParts:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.seed = seed
        sizes = {name: self.random.randint(1, 3) for name in ("berlin", "oslo", "paris")[: self.random.randint(2, 3)]}
        self.domains = [
            Domain(
                name=name,
                nodes=list("abc"[:size]),
                gateways=self.random.sample("abc"[:size], self.random.randint(1, min(2, size))),
                upper=WORLD,
                passes=Pass(out=["b*", "shop"], into=["bank", "s*"] if self.random.random() < 0.7 else ["bank"]),
            )
            for name, size in sizes.items()
        ]
        above = sorted(f"{each.name}.{site}" for each in self.domains for site in each.gateways)
        self.domains.append(Domain(name=WORLD, nodes=above))
        self.tree = Tree(self.domains)
        self.levels = {each.name: Level(sorted(each.nodes), seed + place) for place, each in enumerate(self.domains)}
        self.world = self.levels[WORLD]
        self.sites = {
            f"{each.name}/{site}": Site(site, each.name) for each in self.domains[:-1] for site in sorted(each.nodes)
        }
        self.parts: list[Part] = []
        self.crossings: dict[str, tuple[str, Crossing, list[Message], list[int]]] = {}
        """By the CROSSING's id: its origin, itself, those of its messages that it places, and its place."""
        self.placed: dict[str, set[str]] = {}
        """By upper configuration, the messages that get no place there any more: they have one, or its clusters had
        seen them when it began …"""
        self.told: dict[str, frozenset[str]] = {}
        """… which are these."""
        self.dropped: list[tuple[str, str, str]] = []
        """(domain, local configuration of a majority, site that it dropped)"""
        self.at_once: dict[str, set[str]] = {leaf: set() for leaf in self.tree.leaves}
        """By domain: the messages that are delivered at home at once."""
        self.lone = 0
        for domain in self.tree.leaves:
            self._form(domain)

    # -- rows

    def _row(self, site: Site, kind: str, conf: str, **fields: object) -> None:
        n = self.levels[site.domain].next_number(site.name)
        row = Row(node=site.node, inc=site.inc, n=n, t=n * 1000, layer="wide", kind=kind, conf=conf)
        site.rows.append(structs.replace(row, **fields))

    def _enter(self, site: Site, conf: str, place: list[int], members: list[str], reg: str | None = None) -> None:
        if reg is None and conf in self.told:
            self._deliver_own(site, conf)
        fields = {"ts": place, "members": members, "conf_kind": "regular" if reg is None else "transitional"}
        self._row(site, "conf", conf, **fields, **({} if reg is None else {"reg": reg}))
        site.conf, site.kind, site.root = conf, fields["conf_kind"], conf if reg is None else reg  # type: ignore[assignment]
        if reg is None:
            heard = [each for each in members if self.tree.passes("bank", each, site.domain)]
            self._row(site, "view", conf, group="bank", ts=place, members=[f"{each}/{conf}/x" for each in heard])

    def _deliver_own(self, site: Site, conf: str) -> None:
        """Its own messages that others have seen get no place in this upper configuration: it delivers them before,
        in a wide configuration of its own."""
        own = [each for each in site.held if each.id in self.told[conf] and each.id not in site.got]
        if own:
            last = max((row.ts for row in site.rows if row.inc == site.inc and row.ts), default=[0])
            self._enter(site, f"{conf}/{site.node}/{site.inc}/{len(site.rows)}", last, [site.domain])
            for k, message in enumerate(own):
                self._deliver(site, message, [*last, 1, k])

    @staticmethod
    def _carried(part: Part) -> list[Message]:
        """What of its sites waits to cross, or is not confirmed; in order."""
        return [*(each for crossing in part.unconfirmed for each in crossing.messages), *part.outgoing]

    def _domains_of(self, row: Row) -> list[str]:
        return sorted({name.partition(".")[0] for name in row.members or ()})

    # -- parts

    def _up(self, domain: str) -> list[str]:
        return [name for name, node in self.levels[domain].nodes.items() if node.conf is not None]

    def _site(self, part: Part, name: str) -> Site:
        return self.sites[f"{part.domain}/{name}"]

    def _is_whole(self, part: Part) -> bool:
        """Are all its sites still there?"""
        return all(self._site(part, name).part is part for name in part.members)

    def _gateway(self, part: Part) -> Node:
        return self.world.nodes[f"{part.domain}.{part.rep}"]

    def _stream(self, part: Part) -> list[Row]:
        node = self._gateway(part)
        return [row for row in node.rows if row.inc == node.inc and row.kind in ("conf", "deliver")]

    def _form(self, domain: str) -> None:
        """The cluster's sites have changed their configurations: each new one is a part."""
        level = self.levels[domain]
        for name in self._up(domain):
            conf = level.conf_of(name)
            old = self.sites[f"{domain}/{name}"].part
            if old is not None and old.conf == conf.id:
                continue
            if any(part.conf == conf.id and part.domain == domain for part in self.parts):
                continue
            part = Part(domain, conf.id, list(conf.members))
            self._drop(part)
            self._seat(part, self._elect(part), part)
            self.parts.append(part)

    def _drop(self, part: Part) -> None:
        nodes = self.tree.domains[part.domain].nodes
        if 2 * len(part.members) <= len(nodes):
            return
        for name in part.members:
            old = self._site(part, name).part
            for gone in sorted(set(old.members if old else ()) - set(part.members)):
                self.dropped.append((part.domain, part.conf, gone))

    def _elect(self, part: Part) -> str | None:
        there = [name for name in self.tree.domains[part.domain].gateways if name in part.members]
        return max(there, key=lambda name: len(self.world.conf_of(f"{part.domain}.{name}").members), default=None)

    def _seat(self, part: Part, rep: str | None, new: Part) -> None:
        """The part's sites, whichever parts they come from, go on with this representative."""
        sites = [self._site(new, name) for name in new.members]
        olds = list({id(site.part): site.part for site in sites if site.part is not None}.values())
        fresh = {id(site) for site in sites if site.part is None}
        for site in sites:
            # A part may have gone back to fetch what others of it lack.
            if site.part is not None and site.index <= site.part.pointer:
                site.stand = site.part.turn, site.part.line
        for old in olds:
            new.outgoing += [each for each in old.outgoing if each not in new.outgoing and old is not new]
            new.unconfirmed += [each for each in old.unconfirmed if each not in new.unconfirmed and old is not new]
        new.rep, new.term, new.log = rep, new.term + 1, []
        for site in sites:
            sender = {} if rep is None else {"sender": f"{new.domain}/{rep}"}
            self._row(site, "rep", new.conf, view=new.term, **sender)
            site.taken, site.part = set(), new
            # What the others of its cluster delivered at once before it came is not for it.
            site.skip |= {
                each for other in sites for each in other.got - site.got if each in self.at_once[new.domain]
            }
        if rep is None:
            self.lone += 1
            new.turn, new.line, new.pointer = f"lone{self.lone}", [0, self.lone], 0
            for site in sites:
                self._part_from(site, new, new.turn, new.line, [new.domain])
            return
        at = {id(site): None if id(site) in fresh else self._index(new, site) for site in sites}
        self._take_up(new, sites, at)
        for crossing in new.unconfirmed:
            self._leave(new, crossing)

    def _placed(self, conf: str, members: list[str]) -> set[str]:
        """Of this upper configuration."""
        if conf not in self.placed:
            parts = [self.sites[name.replace(".", "/", 1)].part for name in members]
            seen = {each for site in self.sites.values() if site.part in parts and site.part for each in site.got}
            seen |= {each for name in members for each in self._seen_above(name, conf)}
            self.told[conf] = frozenset(seen)
            self.placed[conf] = seen
        return self.placed[conf]

    def _seen_above(self, gateway: str, before: str) -> set[str]:
        """What this gateway has delivered above before this configuration."""
        seen: set[str] = set()
        node = self.world.nodes[gateway]
        for row in node.rows:
            if row.inc == node.inc and row.kind == "conf" and row.conf == before:
                break
            if row.inc == node.inc and row.kind == "deliver":
                seen.update(each.id for each in self.crossings[str(row.msg)][2])
        return seen

    def _renew(self, part: Part, strangers: list[Site]) -> None:
        """If these have seen what has a place in the configuration above, or may yet get one, they enter the next
        one, which begins now."""
        conf = self.world.conf_of(self._gateway(part).name)
        placed = self._placed(conf.id, conf.members)
        carried = {each.id for other in [*self.parts, part] for each in self._carried(other)}
        if any(site.got & ((carried | placed) - self.told[conf.id]) for site in strangers):
            self.world.form_again(conf)
            conf = self.world.conf_of(self._gateway(part).name)
            self._placed(conf.id, conf.members)

    def _index(self, part: Part, site: Site) -> int | None:
        """Where in what the new gateway saw the site stands; None: it can't go on there."""
        turn, line = site.stand
        stream = self._stream(part)
        begin = next((i for i, row in enumerate(stream) if row.kind == "conf" and row.conf == turn), None)
        if begin is None:
            return None
        end = begin + 1
        while end < len(stream) and stream[end].kind == "deliver" and self.crossings[stream[end].msg][3] <= line:  # type: ignore[index]
            end += 1
        return end

    def _take_up(self, part: Part, sites: list[Site], at: dict[int, int | None]) -> None:
        stream = self._stream(part)
        going = [index for index in at.values() if index is not None]
        part.pointer = first = min(going, default=len(stream))
        # What it has not confirmed, and is placed in this configuration, it needs from there.
        waiting = {each.id for crossing in part.unconfirmed for each in crossing.messages}
        waiting |= {each.id for each in part.outgoing}
        while stream[first - 1].kind == "deliver":
            first -= 1
            if any(each.id in waiting for each in self.crossings[str(stream[first].msg)][1].messages):
                part.pointer = first
        self._renew(part, [site for site in sites if at[id(site)] is None])
        stream = self._stream(part)
        turns = [row for row in stream[: part.pointer] if row.kind == "conf"]
        part.turn, part.line = str(turns[-1].conf), self._place_at(stream, part.pointer)
        last = max(place for place, row in enumerate(stream) if row.conf_kind == "regular")
        for site in sites:
            index = at[id(site)]
            if index is not None:
                site.index = index
            elif last < part.pointer:
                self._part_from(site, part, part.turn, part.line, self._domains_of(turns[-1]))
            else:
                site.index = last  # it waits until the others are there
                self._part_from(site, part)

    def _place_at(self, stream: list[Row], pointer: int) -> list[int]:
        for row in reversed(stream[:pointer]):
            if row.kind == "deliver":
                _, crossing, _, place = self.crossings[str(row.msg)]
                return [*place, len(crossing.messages)]
            if row.conf_kind == "regular":
                return [int(str(row.conf))]
        raise AssertionError("a gateway begins in a configuration")

    def _part_from(
        self,
        site: Site,
        new: Part,
        conf: str | None = None,
        place: list[int] | None = None,
        members: list[str] | None = None,
    ) -> None:
        """The site leaves its wide configuration, and enters this one, or waits for one."""
        change = f"{site.domain}{new.conf}.{new.term}"
        if site.kind == "transitional":
            # It has not all that others deliver here, so it must not go on with them.
            self._enter(site, f"{site.conf}!{change}", [0, 0], [site.domain])
        if site.conf:
            self._enter(site, f"{site.conf}+{change}", site.stand[1], [site.domain], reg=site.conf)
        if conf is not None:
            assert place is not None
            self._enter(site, conf, place, members or [])
            site.index, site.stand = new.pointer, (conf, place)

    # -- messages

    def _leave(self, part: Part, crossing: Crossing) -> None:
        rep = part.rep
        assert rep is not None
        gateway = f"{part.domain}.{rep}"
        conf = self.world.conf_of(gateway)
        ids = [message.id for message in crossing.messages]
        self._row(
            self._site(part, rep), "cross", part.conf,
            view=part.term, msg=crossing.cross, pos=crossing.pos, members=ids,
        )  # fmt: skip
        there = self._placed(conf.id, conf.members)
        fresh = [message for message in crossing.messages if message.id not in there]
        there.update(ids)
        place = [conf.number, 0, len(conf.log)]
        msg = f"{gateway}:{self.world.nodes[gateway].inc}:{self.world.nodes[gateway].sent}"
        self.crossings[msg] = (part.domain, crossing, fresh, place)
        assert self.world.cast(gateway, SAFE, self.random.random() < 0.8) == msg

    def _deliver(self, site: Site, message: Message, place: list[int]) -> None:
        site.got.add(message.id)
        site.known |= {message.id, *message.past} if message.service != FIFO else set()
        fields: dict[str, object] = {"ts": place} if message.is_ordered and message.held else {}
        self._row(
            site, "deliver", site.conf,
            msg=message.id, sender=message.life[0], service=message.service, group=message.group, **fields,
        )  # fmt: skip
