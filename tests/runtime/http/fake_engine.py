"""An engine that reports what a test sets."""

from reconvene.core.groups.events import Process
from reconvene.errors import Rejected
from reconvene.runtime.diagnostics.histogram import Histogram
from reconvene.runtime.isis.interface import SiteIsis
from reconvene.runtime.log.interface import SiteLog
from reconvene.runtime.site.history import History
from reconvene.runtime.site.interface import Engine, ProcessHandle, Receiver

__all__ = ["FakeEngine"]


class FakeEngine:
    def __init__(self) -> None:
        self.names: tuple[str, ...] = ("a", "b", "c")
        self.ordinal = 0
        self.incarnation = 7
        self.history = History(self.names)
        self.log: SiteLog | None = None
        self.isis: SiteIsis | None = None
        self.above: Engine | None = None
        self.state = "primary"
        self.counts: dict[str, int] = {"turns": 5, "sent_messages": 3, "dropped_replay": 2, "dropped_bad_seal": 1}
        self.times: dict[str, Histogram] = {}
        self.told: dict[str, object] = {
            "cluster": "shop",
            "name": "a",
            "incarnation": 7,
            "health": "primary",
            "phase": "operational",
            "members": ["a", "b"],
            "sites": ["a", "b", "c"],
            "uptime_s": 1.5,
            "processes": 4,
            "group_count": 6,
            "waiting": {"messages": 8, "bytes": 900},
            "round_trips_us": {"b": 150.0, "c": 0.0},
            "blocked": {"incoming": ["c"], "outgoing": []},
            "trace": {"bytes": 1000, "stopped": False},
            "storage": "ok",
            "seal": "sealed",
        }

    def open(self, receiver: Receiver) -> ProcessHandle:
        raise Rejected(f"{receiver!r}: {Process(0, 7, 1)!r}: no processes here")

    def status(self) -> dict[str, object]:
        return self.told

    def health(self) -> str:
        return self.state

    def refused_sites(self) -> dict[str, str]:
        return {}

    def log_note(self) -> str | None:
        log = self.told.get("log")
        return log.get("waits") if isinstance(log, dict) else None

    def storage(self) -> str:
        return str(self.told["storage"])

    def counters(self) -> dict[str, int]:
        return self.counts

    def histograms(self) -> dict[str, Histogram]:
        return self.times

    def block(self, incoming: frozenset[int], outgoing: frozenset[int]) -> None:
        raise Rejected("no faults here")
