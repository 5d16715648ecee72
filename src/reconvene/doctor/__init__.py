"""`reconvene doctor`: checks whether a site can run on this machine, and what to change.

Every check tries the real thing where it can: it binds the port, syncs the disk, sends the datagram. Nothing is
changed, and nothing is left behind.
"""

from reconvene.doctor.examine import examine
from reconvene.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "examine"]
