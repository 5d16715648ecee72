"""Why a simulated test fails, apart from its own assertions."""

from reconvene.verify.report import Report

__all__ = ["NotSimulated", "Stuck", "TimedOut", "Violated"]


class TimedOut(AssertionError):
    """What a test waited for did not happen in (virtual) time."""


class Stuck(AssertionError):
    """The test waits, and nothing will ever happen that could wake it."""


class NotSimulated(RuntimeError):
    """The program asked for something that a simulation does not have: a thread, a real socket, a signal."""


class Violated(AssertionError):
    """The history of the run breaks something that Reconvene promises. `report` says what, with witnesses."""

    def __init__(self, report: Report, run: str) -> None:
        self.report = report
        lines = [f"{run}: {', '.join(report.violated())}"]
        for check in report.checks:
            lines += [f"  {check.id}: {w.node}#{w.n}: {w.detail}" for w in check.witnesses[:3]]
        super().__init__("\n".join(lines))
