"""Casts between clusters as one history of process groups, with the casts within clusters beside them.

A process is DOMAIN/SITE:INCARNATION:NUMBER. Casts within a cluster are there because causes lead through them. Their
ids count by themselves, so they are called `DOMAIN/SITE:INCARNATION:COUNTER (cluster)` here. A site's rows of both
files have one order, by `n`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from reconvene.trace.events import Row
from reconvene.verify.codes import CONF, FAIL
from reconvene.verify.isis_history import Cast, Event, IsisHistory
from reconvene.verify.quorums import standing_sites
from reconvene.verify.wide_history import WideHistory

__all__ = ["FAR", "Far", "far_of"]

FAR = ("cbcast", "abcast", "receive", "failed")
"""The kinds of rows of layer `wide` that are about processes."""
_NEAR = " (cluster)"


@dataclass(slots=True)
class Far:
    isis: IsisHistory
    """Its sites are the nodes of layer `wide`."""
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    """By node and `n`: the rows of layer `wide`."""

    def row(self, event: Event) -> Row:
        return self.rows[event.site, event.n]

    def is_far(self, message: Cast) -> bool:
        return not message.name.endswith(_NEAR)


def far_of(wide: WideHistory) -> Far:
    return wide.once(_gather)


def _gather(wide: WideHistory) -> Far:
    far = Far(IsisHistory(wide.names))
    own: list[list[tuple[int, Row]]] = [[] for _ in wide.names]
    for kind in FAR:
        for node, row in wide.others.get(kind, ()):
            own[node].append((row.n, _far_row(row)))
            far.rows[node, row.n] = row
    if not far.rows:
        return far
    for node, name in enumerate(wide.names):
        rows = [*own[node], *_near_rows(wide, name), *_lives(wide, node)]
        for _, row in sorted(rows, key=lambda of: of[0]):
            if row.kind == "conf":
                far.isis.begin(node, row.inc)
            elif row.kind == "fail":
                far.isis.fail(node, row.inc)
            else:
                far.isis.add(node, row)
    standing: set[int] = set()
    for domain in wide.tree.leaves:
        run = wide.levels[domain].run
        index = {site: wide.node_index(f"{domain}/{site}") for site in run.nodes}
        standing |= standing_sites(run, index, {index[site] for site in run.down if site in index})
    far.isis.finish(wide.down, standing, wide.domains.settled)
    return far


def _far_row(row: Row) -> Row:
    made = Row(node=row.node, inc=row.inc, n=row.n, t=row.t, layer="isis", kind=row.kind, process=row.process)
    made.msg, made.sender, made.label, made.service = row.msg, row.sender, row.label, row.service
    made.dests = row.dests
    if row.kind != "failed":
        made.attempt = 0
    return made


def _near_rows(wide: WideHistory, name: str) -> Iterator[tuple[int, Row]]:
    """Causal casts within the node's cluster, where processes begin, and where they are over."""
    domain, _, site = name.partition("/")
    isis = wide.levels[domain].isis
    for process in isis.processes:
        for event in process.events:
            if isis.sites[event.site] != site:
                continue
            row = Row(node=name, inc=process.inc, n=event.n, t=0, layer="isis", kind=event.kind)
            row.process = f"{domain}/{process.name}"
            if event.kind in ("begin", "end"):
                yield event.n, row
            elif event.msg is not None and event.kind in ("cbcast", "abcast", "receive"):
                attempt = event.msg.attempts.get(event.attempt)
                if attempt is None or not attempt.causal:
                    continue
                row.msg, row.attempt = f"{domain}/{event.msg.name}{_NEAR}", event.attempt
                if event.kind == "receive":
                    row.sender = f"{domain}/{isis.name(event.sender)}"
                else:
                    row.dests = [f"{domain}/{isis.name(one)}" for one in attempt.dests]
                    row.service = "causal" if event.kind == "cbcast" else "safe"
                    row.label = json.dumps(attempt.label) if event.kind == "cbcast" else attempt.text
                yield event.n, row


def _lives(wide: WideHistory, node: int) -> Iterator[tuple[int, Row]]:
    """Where the node's incarnations begin and fail."""
    for event in range(wide.first[node], wide.first[node + 1]):
        row = wide.rows[event]
        if wide.kind[event] in (CONF, FAIL):
            kind = "conf" if wide.kind[event] == CONF else "fail"
            yield row.n, Row(node=row.node, inc=row.inc, n=row.n, t=row.t, layer="isis", kind=kind)
