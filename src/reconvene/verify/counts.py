"""How many events of which kind a run has: what the numbers of cases are worked out from.

Each check says how by one formula (`Check.cases`). The local engine counts a run in memory, here; the Spark engine
fills the same fields from its tables.
"""

from collections.abc import Callable
from dataclasses import dataclass

from reconvene.verify.codes import AGREED, DELIVER, FIFO, HIDDEN, NONE, SEND
from reconvene.verify.history import History
from reconvene.verify.log_history import ACCEPT, GREEN, LOG, RED, SNAPSHOT, YELLOW

__all__ = ["EvsCounts", "LogCounts", "ViewCounts", "counts_of", "green_positions"]


@dataclass(slots=True, kw_only=True)
class EvsCounts:
    """Layer `evs`. A message is *ordered* if it is agreed or safe. Of the Spark engine's, `events` are those about
    messages and `shared_confs` is 0: the others are counted with the skeleton."""

    rows: int = 0
    """Of any layer."""
    events: int = 0
    """Hidden configurations left out."""
    sends: int = 0
    deliveries: int = 0
    fifo: int = 0
    """Sendings and deliveries of fifo messages."""
    ordered: int = 0
    """Deliveries of ordered messages."""
    caused: int = 0
    """Deliveries of messages that were sent in the regular configuration of where they are delivered."""
    shared_confs: int = 0
    """Configurations that were entered more than once."""
    several: int = 0
    """Ordered messages that were delivered more than once."""
    stamped: int = 0
    """Deliveries with a timestamp."""
    successors: int = 0
    """Deliveries with a timestamp that are not their node's first."""
    marked: int = 0
    """Messages that were sent and have a timestamp."""


@dataclass(slots=True, kw_only=True)
class LogCounts:
    """Layer `corel`."""

    accepts: int = 0
    logs: int = 0
    yellows: int = 0
    reds: int = 0
    greens: int = 0
    snapshots: int = 0
    unaccepted_logs: int = 0
    """Log events of messages that nobody accepted; …"""
    unaccepted_greens: int = 0
    """… and green events of such."""
    phases: int = 0
    """Attempt, commit and establish events."""
    positions: int = 0
    """Positions that a green event has."""


@dataclass(slots=True, kw_only=True)
class ViewCounts:
    """Groups with the filter. Of the Spark engine's, `events` are those about messages: view and stop events are
    counted with the skeleton."""

    events: int = 0
    casts: int = 0
    deliveries: int = 0
    fifo: int = 0
    """Casts and deliveries of fifo messages."""
    ordered: int = 0
    """Deliveries that are agreed or safe."""


Counts = EvsCounts | LogCounts | ViewCounts | None
"""None: of the layers `isis` and `wide`, whose checks count their cases themselves."""


def counts_of(history: History, layer: str) -> Counts:
    return history.once(_COUNT[layer])


def green_positions(h: History) -> set[int]:
    return {
        number
        for node_log in h.log.node_logs
        for kind, number in zip(node_log.kind, node_log.number, strict=True)
        if kind == GREEN
    }


def _count_evs(h: History) -> EvsCounts:
    fifo = ordered = caused = 0
    by_message = [0] * len(h.messages)
    stamped = bytearray(len(h.messages))
    for event, kind in enumerate(h.kind):
        if kind != DELIVER:
            continue
        message = h.msg[event]
        service, send = h.msg_service[message], h.sent[message]
        if service == FIFO:
            fifo += 1
        elif service >= AGREED:
            ordered += 1
            by_message[message] += 1
        if send != NONE and h.conf[send] == h.root[h.conf[event]]:
            caused += 1
        if h.ts[event] != NONE:
            stamped[message] = 1
    by_node = [h.first[node + 1] - h.first[node] - _nones(h, node) for node in range(h.nodes)]
    return EvsCounts(
        rows=h.rows,
        events=len(h.kind) - h.kind.count(HIDDEN),
        sends=len(h.sends),
        deliveries=h.kind.count(DELIVER),
        fifo=fifo + sum(h.msg_service[h.msg[event]] == FIFO for event in h.sends),
        ordered=ordered,
        caused=caused,
        shared_confs=sum(len(conf.entered) > 1 for conf in h.confs),
        several=sum(count > 1 for count in by_message),
        stamped=sum(by_node),
        successors=sum(count - 1 for count in by_node if count),
        marked=sum(
            has_stamp and send != NONE and service != FIFO
            for has_stamp, send, service in zip(stamped, h.sent, h.msg_service, strict=True)
        ),
    )


def _nones(h: History, node: int) -> int:
    """Events of a node without a timestamp."""
    return h.ts[h.first[node] : h.first[node + 1]].count(NONE)


def _count_log(h: History) -> LogCounts:
    log = h.log
    total = {kind: sum(node_log.kind.count(kind) for node_log in log.node_logs) for kind in range(SNAPSHOT + 1)}
    unaccepted = {LOG: 0, GREEN: 0}
    if NONE in log.author:
        for node_log in log.node_logs:
            for kind, message in zip(node_log.kind, node_log.msg, strict=True):
                if kind in unaccepted and log.author[message] == NONE:
                    unaccepted[kind] += 1
    return LogCounts(
        accepts=total[ACCEPT],
        logs=total[LOG],
        yellows=total[YELLOW],
        reds=total[RED],
        greens=total[GREEN],
        snapshots=total[SNAPSHOT],
        unaccepted_logs=unaccepted[LOG],
        unaccepted_greens=unaccepted[GREEN],
        phases=sum(len(node_log.named) for node_log in log.node_logs),
        positions=len(h.once(green_positions)),
    )


def _count_views(h: History) -> ViewCounts:
    p = h.processes
    return ViewCounts(
        events=len(p.kind),
        casts=p.kind.count(SEND),
        deliveries=p.kind.count(DELIVER),
        fifo=sum(message != NONE and p.msg_service[message] == FIFO for message in p.msg),
        ordered=sum(kind == DELIVER and service >= AGREED for kind, service in zip(p.kind, p.service, strict=True)),
    )


def _count_nothing(h: History) -> None:
    return None


_COUNT: dict[str, Callable[[History], Counts]] = {
    "evs": _count_evs,
    "corel": _count_log,
    "vs": _count_views,
    "isis": _count_nothing,
    "wide": _count_nothing,
}
