"""Seeds that found a bug where parts of a cluster meet, each with the rule that mends it.

Without its rule the seed fails, by the named check; with it the seed passes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from reconvene.domains.flow import Flow
from reconvene.domains.home import Kept
from reconvene.domains.meeting import Meeting, Phase
from reconvene.domains.representing import Representing
from reconvene.lab.campaign.seeds import run_seed


class Found(NamedTuple):
    rule: str
    seed: int
    check: str
    where: type
    method: str
    without: Callable[[Any], Callable[..., Any]]
    """Of the method: what it is without the rule."""


def _decides(stay_together: Any) -> Any:
    def without(self: Meeting, members: tuple[int, ...]) -> None:
        stay_together(self, members)
        self._is_ending = False

    return without


def _merges(restart: Any) -> Any:
    def without(self: Meeting) -> None:
        met = self._site.phase is Phase.CATCHING_UP
        restart(self)
        if met:
            self._part = self._together

    return without


FOUND = [
    Found("nothing is decided in the end", 1113, "wide.rep", Meeting, "stay_together", _decides),
    Found("parts at different places are not one", 1755, "wide.fifo", Meeting, "restart", _merges),
    Found("from who has left", 2062, "wide.causal", Representing, "_has_left", lambda _: lambda self, entry: False),
    Found("placed before it entered", 393, "wide.causal", Flow, "_is_known", lambda _: lambda self, one: False),
    Found("behind what came back", 2461, "wide.causal", Kept, "behind", lambda _: lambda self, message: iter(())),
]


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.rule.replace(" ", "-"))
def test_rule(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_seed("wide", found.seed).ok
    monkeypatch.setattr(found.where, found.method, found.without(getattr(found.where, found.method)))
    assert found.check in run_seed("wide", found.seed).violations
