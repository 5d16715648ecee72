"""The nodes' ways through configurations, of one run, from the few rows about them.

Given: rows that move a node or hide a configuration, and what is known of each configuration. Promised: how many of
these rows break Specification 2.2, exactly as the local check counts; and, where none does, which node was where, and
an order of the regular configurations in which all nodes went through them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from reconvene.verify.codes import CONF, HIDDEN

__all__ = ["Row", "Ways"]

Row = Mapping[str, Any]


class Ways:
    def __init__(self, rows: Iterable[Row], confs: Mapping[int, Row]) -> None:
        self._confs = confs
        self.problems = 0
        """Rows that break 2.2."""
        self.differ = 0
        """Enterings that differ from the lowest one of the same configuration."""
        self.events = 0
        self.hidden = 0
        self.others = 0
        """Rows of other layers."""
        self.inc: dict[tuple[int, int], int] = {}
        """By node and regular configuration: the incarnation that was in it."""
        self.late: dict[tuple[int, int], int] = {}
        """By node and regular configuration: the transitional one that followed."""
        self._next: dict[int, set[int]] = {}
        by_node: dict[int, list[Row]] = {}
        for row in rows:
            if row["node"] is None:
                self.others += row["rows"]
            else:
                by_node.setdefault(row["node"], []).append(row)
        for mine in by_node.values():
            mine.sort(key=lambda row: row["place"])
            self._follow(mine)
            self._walk(mine)

    def _follow(self, rows: list[Row]) -> None:
        """Specification 2.2, of rows that are no sendings or deliveries."""
        inc, current, over = 0, None, True
        entered: set[int] = set()
        for row in rows:
            if row["inc"] < inc:
                self.problems += 1
                continue
            right = not over if row["inc"] == inc else over
            if row["inc"] > inc:
                inc, current, over = row["inc"], None, False
            if row["kind"] == CONF:
                right = right and row["conf"] not in entered and self._follows(row, current)
                current = row["conf"]
                entered.add(current)
            elif row["kind"] != HIDDEN:
                right = right and row["conf"] == current
                current, over = None, True
            self.problems += not right

    def _follows(self, row: Row, current: int | None) -> bool:
        if current is None:
            return row["reg"] is None and bool(row["alone"])
        before = self._confs[current]["kind"]
        if row["reg"] is None:
            return bool(before == "transitional")
        return bool(before == "regular") and row["reg"] == current

    def _walk(self, rows: list[Row]) -> None:
        root: int | None = None
        for row in rows:
            if row["kind"] == HIDDEN:
                self.hidden += 1
                continue
            self.events += 1
            if row["kind"] != CONF:
                continue
            conf, node, came_from = row["conf"], row["node"], root
            root = conf if row["reg"] is None else row["reg"]
            known = self._confs[conf]
            self.differ += (known["kind"], known["root"]) != (
                "regular" if row["reg"] is None else "transitional",
                root,
            )
            self._next.setdefault(root, set())
            if row["reg"] is None:
                self.inc[node, root] = row["inc"]
            else:
                self.late[node, root] = conf
            if came_from is not None and came_from != root:
                self._next.setdefault(came_from, set()).add(root)

    def order(self) -> list[int] | None:
        """The regular configurations, each after all that someone came to it from; or None, if they form a circle."""
        left = dict.fromkeys(self._next, 0)
        for following in self._next.values():
            for root in following:
                left[root] += 1
        ready = [root for root, count in left.items() if count == 0]
        for root in ready:
            for following_root in self._next[root]:
                left[following_root] -= 1
                if left[following_root] == 0:
                    ready.append(following_root)
        return ready if len(ready) == len(left) else None

    def following(self, root: int) -> set[int]:
        """The regular configurations that someone entered next, also by a restart."""
        return self._next.get(root, set())
