"""COReL's service guarantees (section 4: properties 3.1, 3.2, 3.6, 3.7, 3.8) and its invariants (section 5.4)."""

from reconvene.verify.corel import causal, green, integrity, liveness, yellow
from reconvene.verify.history import History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies

__all__ = ["IDS", "check"]

IDS = (
    "corel.3.1",
    "corel.3.2",
    "corel.3.6",
    "corel.3.7",
    "corel.3.8",
    "corel.causal",
    "corel.green",
    "corel.agreed",
    "corel.yellow",
)


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    if not history.log.rows:
        return
    integrity.accepted(history, tallies["corel.3.1"])
    integrity.once(history, tallies["corel.3.2"])
    green.one_sequence(history, tallies["corel.3.6"])
    causal.green_in_order(history, tallies["corel.3.7"])
    liveness.all_green(history, tallies["corel.3.8"])
    causal.had_in_order(history, tallies["corel.causal"])
    green.appended_only(history, tallies["corel.green"])
    green.agreed(history, tallies["corel.agreed"])
    yellow.known(history, tallies["corel.yellow"])
