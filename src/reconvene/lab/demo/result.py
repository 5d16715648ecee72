"""The result of a demo: what was checked, and the figures. `--json` prints it."""

from msgspec import Struct, field, to_builtins

from reconvene.verify.report import Report

__all__ = ["DemoResult", "Figures", "Finding", "Lost", "Took", "Wait"]


class Finding(Struct, frozen=True):
    """Something that must hold."""

    what: str
    ok: bool
    detail: str


class Wait(Struct, frozen=True):
    """How long something took, over so many votes."""

    votes: int = 0
    median_ns: int = 0
    p99_ns: int = 0
    longest_ns: int = 0


class Took(Struct, frozen=True):
    what: str
    took_ns: int


class Lost(Struct, frozen=True):
    """The vote whose answer was lost."""

    voter: int
    first: str
    """The site that had it on its disk, and was killed before its answer arrived."""
    then: str
    """The site that answered."""
    again: bool
    """It answered that the log had the vote already."""
    position: int = -1


class Figures(Struct, kw_only=True):
    votes: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """By candidate."""
    colours: dict[str, int] = field(default_factory=dict)
    """Votes by colour at the end, at the site that has the most of it."""
    retried: int = 0
    """Entries of the log that are second copies of a vote, and do not count."""
    answered: Wait = Wait()
    """From a voter's vote to the receipt."""
    counted_at_once: Wait = Wait()
    """From accepted to green, at its site, in a majority that stayed together."""
    counted_later: Wait = Wait()
    """The same for votes that had to wait for a majority."""
    changes: list[Took] = field(default_factory=list)
    """From what the script did to the last site's new configuration."""
    rows: int | None = None
    """Rows of the stream's table."""
    engine: str = ""
    events: int = 0
    cases: int = 0
    seconds: float = 0.0


class DemoResult(Struct, kw_only=True):
    cluster: str
    """Its directory."""
    findings: list[Finding] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    lost: Lost | None = None
    report: str | None = None
    """Latencies, colours and configurations over time; needs Spark."""
    checks: str | None = None
    """Every check with its verdict."""
    dashboards: dict[str, str] = field(default_factory=dict)
    """By site."""
    running: bool = False
    """The cluster was left running."""
    no_spark: str | None = None
    """Why Spark was not used."""
    verdict: Report | None = None

    @property
    def ok(self) -> bool:
        return bool(self.findings) and all(finding.ok for finding in self.findings)

    def document(self) -> dict[str, object]:
        """Everything, as it is written as JSON."""
        return {"ok": self.ok, **to_builtins(self)}
