"""Who represents a cluster: a pure function of what its gateways reported, in the cluster's order.

So all its sites know the same representative at the same place of their order.
"""

from collections.abc import Mapping, Sequence

from reconvene.domains.messages import Port

__all__ = ["elect"]


def elect(
    ports: Mapping[str, Port], order: Sequence[str], present: str | None, resigned: str | None, least: int
) -> str | None:
    """By most domains above, then who has not just resigned, then the present one, then the configured `order`.

    A gateway whose configuration above has a lower number than `least` can't be chosen: places would go back.
    """
    ranks = [
        (-len(ports[name].domains), name == resigned, name != present, place, name)
        for place, name in enumerate(order)
        if name in ports and ports[name].number >= least
    ]
    return min(ranks)[-1] if ranks else None
