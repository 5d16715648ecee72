"""Every check, in the report's order. A new module of checks is added to `_MODULES`; all else follows from it."""

from typing import Any

from reconvene.verify import live, to, transis
from reconvene.verify.check import Check
from reconvene.verify.corel import causal as log_causal
from reconvene.verify.corel import following, green, integrity, liveness, phases, stamps, voting, yellow
from reconvene.verify.evs import basic, causal, changes, delivery, primary, safe, total
from reconvene.verify.isis import calls, failures, groups, orders, sites
from reconvene.verify.isis import causes as isis_causes
from reconvene.verify.isis import delivery as isis_delivery
from reconvene.verify.isis import live as isis_live
from reconvene.verify.vs import causes, complete, legal, views
from reconvene.verify.wide import casts, crossings, members, order
from reconvene.verify.wide import causes as wide_causes
from reconvene.verify.wide import delivery as wide_delivery
from reconvene.verify.wide import live as wide_live

__all__ = ["CHECKS", "IDS", "ids_of"]

_EVS = (basic, changes, delivery, causal, total, safe, primary, transis, to)
_LOG = (integrity, log_causal, green, liveness, yellow, phases, stamps, voting, following)
_VIEWS = (causes, complete, legal, views)
_ISIS = (isis_delivery, isis_causes, orders, failures, groups, calls, sites, isis_live)

_WIDE = (wide_delivery, wide_causes, order, crossings, members, casts, wide_live)


def _guarantees_first(check: Check[Any, Any]) -> str:
    """The log's properties by number, then its invariants."""
    return check.id if check.id.startswith("corel.3.") else "corel.4"


CHECKS: tuple[Check[Any, Any], ...] = (
    *(check for module in _EVS for check in module.CHECKS),
    *sorted((check for module in _LOG for check in module.CHECKS), key=_guarantees_first),
    *live.CHECKS,
    *sorted((check for module in _VIEWS for check in module.CHECKS), key=lambda check: check.id),
    *(check for module in _ISIS for check in module.CHECKS),
    *(check for module in _WIDE for check in module.CHECKS),
)

IDS = tuple(check.id for check in CHECKS)


def ids_of(layer: str) -> tuple[str, ...]:
    return tuple(check.id for check in CHECKS if check.layer == layer)
