"""How long a train may be: as many packets as the loss allows.

A lost segment loses its whole train, which is then sent again in full. So the length doubles while almost nothing is
sent again, halves where more than a few frames in a hundred are, and falls to a single packet where it is worse. It
begins with a single packet: what a path loses is not known before something was sent.

Given: how many datagrams of at least half a packet were sent, and how many frames were sent again. Both count each
destination. Small datagrams say nothing about trains, and would hide the loss of large ones.
"""

__all__ = ["COPIES", "LEAST_SENT", "TrainLength"]

LEAST_SENT = 100
"""Datagrams between two decisions."""
COPIES = 3
"""How often each segment is sent while the loss is high: frames that were cut for a better path, and states of large
clusters, can't be made shorter, and would hardly ever arrive whole."""
_GROW_BELOW = 0.01
_SHRINK_ABOVE = 0.05
_COLLAPSE_ABOVE = 0.3
_ALARMING = 16
"""So many frames sent again are judged at once, however few were sent."""


class TrainLength:
    def __init__(self, most: int) -> None:
        """`most`: packets of the longest train."""
        self._most = most
        self._sent = self._resent = 0
        self.packets = 1
        self.copies = 1

    def observe(self, sent: int, resent: int) -> None:
        """Both since the site started."""
        of, again = sent - self._sent, resent - self._resent
        if of < LEAST_SENT and again < _ALARMING:
            return
        self._sent, self._resent = sent, resent
        share = again / max(of, 1)
        self.copies = COPIES if share > _SHRINK_ABOVE else 1
        if share > _COLLAPSE_ABOVE:
            self.packets = 1
        elif share > _SHRINK_ABOVE:
            self.packets = max(1, self.packets // 2)
        elif share < _GROW_BELOW:
            self.packets = min(self._most, 2 * self.packets)
