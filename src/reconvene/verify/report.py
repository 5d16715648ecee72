"""What a check found: how many cases it looked at, how many are violated, and the ten lowest witnesses."""

from collections.abc import Iterable

from msgspec import Struct, structs

__all__ = ["WITNESSES", "CheckResult", "Report", "Tally", "Witness", "add_reports"]

WITNESSES = 10
_PRUNE_AT = 4096


class Witness(Struct, frozen=True, order=True):
    """Where a violation shows. Ordered by run, node and n; the detail only breaks ties."""

    run: str
    node: str
    n: int
    detail: str


class CheckResult(Struct, frozen=True, kw_only=True):
    id: str
    cases: int
    violations: int
    witnesses: list[Witness]


class Report(Struct, frozen=True, kw_only=True):
    """What `reconvene verify --json` prints."""

    ok: bool
    schema: int
    engine: str
    runs: int
    events: int
    checks: list[CheckResult]

    def violated(self) -> list[str]:
        """The ids of the checks that do not hold."""
        return [check.id for check in self.checks if check.violations]

    def check(self, check_id: str) -> CheckResult:
        return next(check for check in self.checks if check.id == check_id)


def add_reports(one: Report, other: Report) -> Report:
    """Both together, under the first one's engine; of the same checks."""
    checks = [
        CheckResult(
            id=a.id,
            cases=a.cases + b.cases,
            violations=a.violations + b.violations,
            witnesses=sorted([*a.witnesses, *b.witnesses])[:WITNESSES],
        )
        for a, b in zip(one.checks, other.checks, strict=True)
    ]
    return structs.replace(
        one, ok=one.ok and other.ok, runs=one.runs + other.runs, events=one.events + other.events, checks=checks
    )


class Tally:
    """One check's count in the making, over any number of runs."""

    __slots__ = ("_witnesses", "cases", "id", "violations")

    def __init__(self, check_id: str) -> None:
        self.id = check_id
        self.cases = 0
        self.violations = 0
        self._witnesses: list[Witness] = []

    def violate(self, run: str, node: str, n: int, detail: str) -> None:
        self.violations += 1
        self._witnesses.append(Witness(run, node, n, detail))
        if len(self._witnesses) >= _PRUNE_AT:
            self._prune()

    def result(self) -> CheckResult:
        self._prune()
        return CheckResult(id=self.id, cases=self.cases, violations=self.violations, witnesses=list(self._witnesses))

    def _prune(self) -> None:
        self._witnesses.sort()
        del self._witnesses[WITNESSES:]


class Tallies:
    """The tallies of all checks, by id. Its order is the report's."""

    __slots__ = ("_tallies",)

    def __init__(self, ids: Iterable[str]) -> None:
        self._tallies = {check_id: Tally(check_id) for check_id in ids}

    def __getitem__(self, check_id: str) -> Tally:
        return self._tallies[check_id]

    def results(self) -> list[CheckResult]:
        return [tally.result() for tally in self._tallies.values()]
