"""Whether clocks that are ahead of each other by unknown amounts can be set right.

Given: of pairs of nodes, by how much the second one's clock, when it delivered a message of the first, was ahead of
the first one's clock when that sent it, at least. If numbers can be added to the clocks so that all of these are
above zero, then the clocks, so set, prove that every sending was before its deliveries.
"""

from collections.abc import Mapping

__all__ = ["Leads", "can_be_set"]

Leads = dict[tuple[int, int], int]


def can_be_set(leads: Mapping[tuple[int, int], int]) -> bool:
    """They can, unless along some circle of nodes the leads add up to less than one each: shortest paths find it."""
    if all(lead > 0 for lead in leads.values()):
        return True
    nodes = {node for pair in leads for node in pair}
    most = dict.fromkeys(nodes, 0)
    for _ in nodes:
        changed = False
        for (sender, node), lead in leads.items():
            # What is added to the sender's clock may be above what is added to the other's, by less than the lead.
            if most[sender] > most[node] + lead - 1:
                most[sender] = most[node] + lead - 1
                changed = True
        if not changed:
            return True
    return False
