"""Virtual synchrony (sections 4 and 5 of the extended virtual synchrony paper), for the events of the filter.

Complete: C1 to C3, once a history has been extended by what a process that stopped can't tell any more. Legal: L1 to
L5, whether one logical time fits all that happened.
"""

from reconvene.verify.history import History
from reconvene.verify.precedes import Precedes
from reconvene.verify.report import Tallies
from reconvene.verify.vs import causes, complete, legal, views
from reconvene.verify.vs.extend import Extend

__all__ = ["IDS", "check"]

IDS = ("vs.C1", "vs.C2", "vs.C3", "vs.L1", "vs.L2", "vs.L3", "vs.L4", "vs.L5")


def check(history: History, precedes: Precedes, tallies: Tallies) -> None:
    processes = history.processes
    if not processes.kind:
        return
    run = history.run
    extend = Extend(processes, run.settled)
    order = Precedes(processes)
    causes.check(run.run, processes, extend, order, tallies["vs.C1"])
    complete.check(run.run, processes, extend, tallies["vs.C2"], tallies["vs.C3"])
    legal.check(run.run, processes, order, tallies)
    views.check(run.run, processes, tallies["vs.L3"])
