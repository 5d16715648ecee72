"""The run that is known to show a planted bug, recorded once in a run of the tests and judged by both engines."""

from tests.mutants.harness import Mutant, Record, Recorded, record_known
from tests.once import Once

__all__ = ["known_run"]


def known_run(once: Once, mutant: Mutant, record: Record) -> Recorded:
    return once(f"planted {mutant.name}", lambda: record_known(mutant, record))
