"""COReL's service guarantees (section 4: properties 3.1, 3.2, 3.6, 3.7, 3.8), its invariants (section 5.4),
the phases of its primary components (section 5.5.1) and its timestamps (section 5.2)."""

from reconvene.verify.corel import causal, green, integrity, liveness, phases, stamps, yellow
from reconvene.verify.corel.made import made_green
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
    "corel.phases",
    "corel.ts",
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
    made = made_green(history.log)
    yellow.known(history, made, tallies["corel.yellow"])
    phases.gone_through(history, made, tallies["corel.phases"])
    stamps.one_timestamp(history, tallies["corel.ts"])
