"""What a check is: one declaration that both engines, the report, the docs and the tests read.

A check is declared once, beside its code, as a `Check`. `check` judges a run that is in memory; it is the reference.
`prove` is for runs that are too large for that: given what the Spark engine has gathered of a run (the *patterns* of
its messages), it shows without looking at each event that the run keeps the property. What it cannot show is a
*suspect*, and the run is judged by `check`. A property that a run breaks must always have a suspect; the reverse is
not needed. Nothing here imports Spark: patterns are plain Python objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from reconvene.verify.history import History
from reconvene.verify.report import Tally

__all__ = ["Check", "Layer", "Proof", "prove_all"]

Layer = Literal["evs", "corel", "vs", "isis", "wide"]
PatternRow = Mapping[str, Any]
Stamp = list[int]


@dataclass(slots=True)
class Proof:
    """What is shown of one check in one run."""

    check: str
    cases: int = 0
    suspects: int = 0
    """How many cases are not proven right. None: the check holds."""
    patterns: list[PatternRow] = field(default_factory=list)
    """The patterns whose messages are suspects, for a run that is too large to be judged whole."""
    stamps: list[Stamp] = field(default_factory=list)
    """The timestamps of messages that show what is wrong, for the same."""

    def suspect(self, count: int, pattern: PatternRow | None = None) -> None:
        self.suspects += count
        if count and pattern is not None:
            self.patterns.append(pattern)

    def doubt(self) -> None:
        """Nothing is proven: there is one suspect at least."""
        self.suspects = max(1, self.suspects)


C = TypeVar("C")
P = TypeVar("P")


def _counted_elsewhere(counts: object) -> int:
    return 0


def _unproven(patterns: object, proof: Proof) -> None:
    proof.doubt()


def _proven_by_skeleton(patterns: object, proof: Proof) -> None:
    """The skeleton's part is all."""


@dataclass(frozen=True, kw_only=True)
class Check(Generic[C, P]):
    """C: the counts of a run's events from which `cases` is worked out. P: the patterns of the layer."""

    id: str
    layer: Layer
    """Whose rows it judges. It looks at runs that have such rows, and at all runs if it is `evs`."""
    source: str
    """Where the property stands."""
    case: str
    """What a case is, and …"""
    violated: str
    """… when it is violated: the check's row in docs/checks.md."""
    check: Callable[[History, Tally], None]
    """Adds the violations of one run, and the cases that `cases` does not count."""
    cases: Callable[[C], int] = _counted_elsewhere
    """How many cases a run has. Both engines use it. Cases that are pairs, such as a message and a node, are not
    counted here, but where `check` and `prove` come across them."""
    prove: Callable[[P, Proof], None] | None = None
    """Adds the suspects of one run. Without it, and without a skeleton, nothing is proven: every run is judged."""
    skeleton: bool = False
    """Is `check` of the run without its messages, which has only configurations and views, a part of the proof? Its
    cases and violations then count, beside those of `prove`."""
    facts: tuple[str, ...] = ()
    """What can be wrong with a message or a row so that this check has a suspect, by the names that the Spark
    engine's tables use. Of a run that is too large to be judged whole, `check` sees what has one of these facts."""
    kinds: frozenset[str] = frozenset()
    """The kinds of event that can violate it; empty: all kinds of its layer."""
    every_row: bool = False
    """Does it judge the rows of any layer, those of layer `wide` too, which are in files of their own?"""
    whole: bool = False
    """Does `check` count all rows before an event, so that it can't judge some rows of a run?"""

    def prover(self) -> Callable[[P, Proof], None]:
        if self.prove is not None:
            return self.prove
        return _proven_by_skeleton if self.skeleton else _unproven


def prove_all(checks: Sequence[Check[C, P]], counts: C, patterns: P) -> dict[str, Proof]:
    """By check: what is proven of one run, the skeleton's part left out."""
    proofs = {check.id: Proof(check.id, check.cases(counts)) for check in checks}
    for check in checks:
        check.prover()(patterns, proofs[check.id])
    return proofs
