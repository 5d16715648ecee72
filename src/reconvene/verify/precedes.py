"""The precedes relation as a graph, and whether a logical time can exist on it.

Three graphs, each with the edges of the one before, all over a run's events:
- PLAIN: a node's events in their order, and each sending before the deliveries of its message;
- CONFS: besides, the deliver_conf events of one configuration are one vertex (Specifications 2.3, 2.4);
- TOTAL: besides, the deliveries of one agreed or safe message are one vertex (6.1, 6.2). Fifo messages are left
  out of this one: nothing orders them against agreed ones, so no logical time is promised of them.

A graph without a cycle is walked once, every node going on until it has to wait for another. Only where that gets
stuck are the knots (strongly connected components) looked for.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from reconvene.verify.codes import AGREED, CONF, DELIVER, FIFO, HIDDEN, NONE, SEND

__all__ = ["Events", "Graph", "Knot", "Precedes"]

_SHOWN = 12


class Graph(IntEnum):
    PLAIN = 0
    CONFS = 1
    TOTAL = 2


Edge = tuple[int, int]


class Entered(Protocol):
    """What several nodes enter at one logical time."""

    entered: list[int]


class Events(Protocol):
    """Events in columns, numbered by node, then in the node's order. A node is whatever has one thread of control: a
    site, in configurations, or a process, in views."""

    first: list[int]
    node: list[int]
    kind: list[int]
    conf: list[int]
    msg: list[int]
    messages: list[str]
    msg_service: list[int]
    sent: list[int]

    @property
    def nodes(self) -> int: ...

    @property
    def confs(self) -> Sequence[Entered]: ...

    def describe(self, event: int) -> str: ...


@dataclass(slots=True)
class Knot:
    """Events of which each precedes each other: a strongly connected component."""

    history: Events
    events: list[int]
    merged: list[list[int]]
    """Vertices of two or more events, each sorted, lowest first."""
    _edges: dict[int, list[Edge]]
    _vertex: dict[int, int]

    def cycle(self, event: int) -> list[Edge]:
        """A shortest cycle through this event's vertex, as edges. Where one edge's head is not the next one's tail,
        the two events are one vertex."""
        start = self._vertex[event]
        came: dict[int, Edge] = {}
        queue = deque([start])
        while queue:
            vertex = queue.popleft()
            for edge in self._edges[vertex]:
                head = self._vertex.get(edge[1])
                if head is None or head in came:
                    continue
                came[head] = edge
                if head == start:
                    return self._path(came, start)
                queue.append(head)
        raise AssertionError("every vertex of a knot lies on a cycle")

    def _path(self, came: dict[int, Edge], start: int) -> list[Edge]:
        path = [came[start]]
        while self._vertex[path[-1][0]] != start:
            path.append(came[self._vertex[path[-1][0]]])
        path.reverse()
        return path

    def describe(self, event: int) -> str:
        """The cycle through this event in words."""
        edges = self.cycle(event)
        words = [self.history.describe(edges[0][0])]
        last = edges[0][0]
        for tail, head in edges:
            if tail != last:
                words.append(f"= {self.history.describe(tail)}")
            words.append(f"-> {self.history.describe(head)}")
            last = head
        if last != edges[0][0]:
            words.append(f"= {self.history.describe(edges[0][0])}")
        if len(words) > _SHOWN:
            words[_SHOWN - 1 : -1] = [f"… ({len(words) - _SHOWN} more)"]
        return " ".join(words)


class Precedes:
    """A run's graphs, each walked at most once however many checks ask."""

    def __init__(self, history: Events) -> None:
        self._history = history
        self._knots: dict[Graph, list[Knot]] = {}
        order, places = walk(history, Graph.CONFS)
        self._acyclic = places == history.first[1:]
        self._order = order if self._acyclic else None

    def schedule(self) -> list[int]:
        """The run's events in an order in which each sending comes before the deliveries of its message.

        Where no such order exists (1.1 is violated then), deliveries are let through unsent, at the lowest node
        first.
        """
        if self._order is None:
            self._order, _ = walk(self._history, Graph.PLAIN, force=True)
        return self._order

    def knots(self, graph: Graph) -> list[Knot]:
        """The graph's strongly connected components that hold a cycle, lowest event first."""
        if graph not in self._knots:
            # What has no cycle with the configurations merged has none without.
            skip = self._acyclic and graph != Graph.TOTAL
            self._knots[graph] = [] if skip else find_knots(self._history, graph)
        return self._knots[graph]


def walk(history: Events, graph: Graph, force: bool = False) -> tuple[list[int], list[int]]:
    """Walks the graph as far as it has no cycle: the events passed, and where each node stands at the end."""
    return _Walk(history, graph).run(force)


class _Walk:
    """Each node goes on along its file until it must wait: for a sending, or for the others of a merged vertex."""

    def __init__(self, history: Events, graph: Graph) -> None:
        self.h = history
        self.graph = graph
        self.order: list[int] = []
        self.places = history.first[:-1].copy()
        self.seen = bytearray(len(history.messages))
        """Messages whose sending was passed, or that have none."""
        for message, sent in enumerate(history.sent):
            self.seen[message] = sent == NONE
        self.for_send: dict[int, list[int]] = {}
        self.for_conf: dict[int, list[int]] = {}
        self.for_msg: dict[int, list[int]] = {}
        self.confs_left = [len(conf.entered) for conf in history.confs]
        self.msgs_left = _deliveries(history) if graph == Graph.TOTAL else []
        self.ready = list(range(history.nodes - 1, -1, -1))

    def run(self, force: bool) -> tuple[list[int], list[int]]:
        while True:
            while self.ready:
                self._advance(self.ready.pop())
            if not (force and self._force()):
                return self.order, self.places

    def _force(self) -> bool:
        for node, place in enumerate(self.places):
            if place < self.h.first[node + 1]:
                # It waits for a sending: that is all that anyone waits for in the graph that is forced.
                self.for_send[self.h.msg[place]].remove(node)
                self.order.append(place)
                self.places[node] += 1
                self.ready.append(node)
                return True
        return False

    def _advance(self, node: int) -> None:
        h = self.h
        kinds, msgs, sent, services = h.kind, h.msg, h.sent, h.msg_service
        seen, order, stop = self.seen, self.order, h.first[node + 1]
        total, confs = self.graph == Graph.TOTAL, self.graph >= Graph.CONFS
        event = self.places[node]
        while event < stop:
            kind = kinds[event]
            if kind == DELIVER:
                message = msgs[event]
                if not (total and services[message] == FIFO):
                    if not seen[message]:
                        self.for_send.setdefault(message, []).append(node)
                        break
                    if (
                        total
                        and services[message] >= AGREED
                        and not self._meet(self.msgs_left, self.for_msg, message, node)
                    ):
                        break
            elif kind == SEND:
                message = msgs[event]
                if sent[message] == event:
                    seen[message] = 1
                    self.ready.extend(self.for_send.pop(message, ()))
            elif kind == CONF and confs and not self._meet(self.confs_left, self.for_conf, h.conf[event], node):
                break
            order.append(event)
            event += 1
        self.places[node] = event

    def _meet(self, left: list[int], waiting: dict[int, list[int]], vertex: int, node: int) -> bool:
        """This node has come to a merged vertex. Is everyone there? Then the others go on too."""
        left[vertex] -= 1
        if left[vertex] > 0:
            waiting.setdefault(vertex, []).append(node)
            return False
        for other in waiting.pop(vertex, ()):
            self.order.append(self.places[other])
            self.places[other] += 1
            self.ready.append(other)
        return True


def _deliveries(history: Events) -> list[int]:
    counts = [0] * len(history.messages)
    for kind, message in zip(history.kind, history.msg, strict=True):
        if kind == DELIVER:
            counts[message] += 1
    return counts


def find_knots(history: Events, graph: Graph) -> list[Knot]:
    _, places = walk(history, graph)
    rest = [
        event
        for node, place in enumerate(places)
        for event in range(place, history.first[node + 1])
        if _is_vertex(history, graph, event)
    ]
    if not rest:
        return []
    vertex = _merge(history, graph, rest)
    edges = _edges(history, rest, vertex)
    members: dict[int, list[int]] = {}
    for event in rest:
        members.setdefault(vertex[event], []).append(event)
    found: list[Knot] = []
    for component in _components(edges, vertex):
        if len(component) == 1 and all(vertex[head] != component[0] for _, head in edges[component[0]]):
            continue
        inside = {event: v for v in component for event in members[v]}
        merged = sorted(members[v] for v in component if len(members[v]) > 1)
        found.append(Knot(history, sorted(inside), merged, edges, inside))
    found.sort(key=lambda knot: knot.events[0])
    return found


def _is_vertex(history: Events, graph: Graph, event: int) -> bool:
    if history.kind[event] == HIDDEN:
        return False
    if graph == Graph.TOTAL and history.kind[event] in (SEND, DELIVER):
        return history.msg_service[history.msg[event]] != FIFO
    return True


def _merge(history: Events, graph: Graph, rest: list[int]) -> dict[int, int]:
    """Each event's vertex, which is the lowest event of it."""
    vertex: dict[int, int] = {}
    by_conf: dict[int, int] = {}
    by_msg: dict[int, int] = {}
    for event in rest:
        kind = history.kind[event]
        if kind == CONF and graph >= Graph.CONFS:
            vertex[event] = by_conf.setdefault(history.conf[event], event)
        elif kind == DELIVER and graph == Graph.TOTAL and history.msg_service[history.msg[event]] >= AGREED:
            vertex[event] = by_msg.setdefault(history.msg[event], event)
        else:
            vertex[event] = event
    return vertex


def _edges(history: Events, rest: list[int], vertex: dict[int, int]) -> dict[int, list[Edge]]:
    edges: dict[int, list[Edge]] = {v: [] for v in vertex.values()}
    previous = NONE
    for event in rest:
        if previous != NONE and history.node[previous] == history.node[event]:
            edges[vertex[previous]].append((previous, event))
        previous = event
        if history.kind[event] == DELIVER:
            sent = history.sent[history.msg[event]]
            if sent in vertex:
                edges[vertex[sent]].append((sent, event))
    return edges


def _components(edges: dict[int, list[Edge]], vertex: dict[int, int]) -> Iterator[list[int]]:
    """Tarjan's strongly connected components, without recursion: a run's graph is as deep as the run is long."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for origin in edges:
        if origin in index:
            continue
        work = [(origin, 0)]
        while work:
            v, place = work.pop()
            if place == 0:
                index[v] = low[v] = len(index)
                stack.append(v)
                on_stack.add(v)
            outgoing = edges[v]
            while place < len(outgoing):
                head = vertex[outgoing[place][1]]
                place += 1
                if head not in index:
                    work.append((v, place))
                    work.append((head, 0))
                    break
                if head in on_stack:
                    low[v] = min(low[v], index[head])
            else:
                if low[v] == index[v]:
                    component: list[int] = []
                    while not component or component[-1] != v:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    yield sorted(component)
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[v])
