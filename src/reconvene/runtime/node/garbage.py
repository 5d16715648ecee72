"""How often a site's process looks for cycles of objects that nothing else refers to.

Python frees an object when nothing refers to it any more. Only cycles need the collector, and the core makes none in
its ordinary turns. But by default the collector starts whenever 700 more objects were made than freed. A busy site
makes that many in a few turns, as messages come in that wait to be acknowledged, and then the collector walks through
thousands of objects that are all in use. So here it is rare, and leaves out what a site has when it is ready.

It is not off: cycles arise with exceptions, closed connections and cancelled tasks. `YOUNG` bounds how many objects
can wait for the collector in unreachable cycles that are young: some tens of megabytes at most.
"""

import gc

__all__ = ["YOUNG", "collect_rarely"]

YOUNG = 50_000
"""Objects made and not freed, until the young ones are looked at."""
_MIDDLE = 20
"""Collections of young objects, until those that survived one are looked at too."""
_OLD = 10
"""Collections of those, until all are looked at. As in Python's own setting."""


def collect_rarely() -> None:
    """For a process that is a site and nothing else, once it is ready. What is there now, mostly modules, is never
    looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, _MIDDLE, _OLD)
