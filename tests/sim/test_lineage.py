"""The line of used configurations under chaos, judged by an oracle of its own; planted bugs, which it has to find."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.sim.chunks import in_chunks
from tests.sim.lineage_oracle import judge
from tests.sim.lineage_world import run_line

from reconvene.core.effects import Used
from reconvene.core.groups.lineage import Claim, Lineage
from reconvene.core.groups.roster import Roster
from reconvene.core.record import Kept, Record
from reconvene.site_list import SiteList

SEEDS = 200
_CHUNK = 20
_SEARCHED = 50
"""Seeds that a planted bug may survive."""


@pytest.mark.parametrize("start", in_chunks(SEEDS, _CHUNK))
def test_seeds(start: int) -> None:
    found, cases = {}, Counter[str]()
    for seed in range(start, start + _CHUNK):
        judgement = judge(run_line(seed))
        cases += judgement.cases
        if judgement.violations:
            found[seed] = judgement.violations[:3]
    assert not found
    assert cases["in the regular one"] > 200
    assert min(cases[case] for case in ("together", "one exit", "a quorum forgot")) > 5
    assert min(cases[case] for case in ("in the transitional one", "a witness")) > 0


# -- planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]


def _everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lineage, "_heirs", lambda self, claims: tuple(sorted(claims)))


def _any_used_one_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    heirs = Lineage._heirs

    def mutant(self: Lineage, claims: Mapping[int, Claim]) -> tuple[int, ...]:
        return heirs(
            self, {site: claim._replace(active=self.lineage if claim.active else 0) for site, claim in claims.items()}
        )

    monkeypatch.setattr(Lineage, "_heirs", mutant)


def _exits_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    heirs = Lineage._heirs
    monkeypatch.setattr(
        Lineage,
        "_heirs",
        lambda self, claims: heirs(self, {site: claim._replace(exit=1) for site, claim in claims.items()}),
    )


def _nobody_has_to_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    heirs = Lineage._heirs
    monkeypatch.setattr(
        Lineage,
        "_heirs",
        lambda self, claims: heirs(self, {site: claim._replace(memory=True) for site, claim in claims.items()}),
    )


def _restarted_sites_always_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lineage, "_is_witness", lambda self, claim, all_tell: claim.memory or bool(claim.forgotten))


def _restarted_sites_never_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lineage, "_is_witness", lambda self, claim, all_tell: claim.memory)


def _older_programs_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    witness = Lineage._is_witness
    monkeypatch.setattr(Lineage, "_is_witness", lambda self, claim, all_tell: witness(self, claim, True))


def _stored_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a site answers for is on its storage only when it answers for another."""

    def begin(self: Kept, number: int, members: Any) -> int:
        self.answered = number
        return self._write()

    def install(self: Kept, number: int, members: Any, agreed: SiteList) -> None:
        if agreed.primary(members):
            self._line = number
        self.learn(replace(agreed, disputed=False))

    monkeypatch.setattr(Kept, "begin", begin)
    monkeypatch.setattr(Kept, "install", install)


def _starts_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site takes the number with which it starts, alone, for one that can have been used."""
    kept = Kept.__init__

    def mutant(self: Kept, record: Record, *rest: Any) -> None:
        kept(self, record, *rest)
        self.forgotten = record.number if record.whole else 0

    monkeypatch.setattr(Kept, "__init__", mutant)


def _kept_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    install = Lineage.install

    def mutant(self: Lineage, number: int, members: Any, sites: SiteList) -> None:
        used, exit_ = self.used, self.exit
        install(self, number, members, sites)
        if not self.primary:
            self.used, self.exit = used, exit_ or (number if used else 0)

    monkeypatch.setattr(Lineage, "install", mutant)
    monkeypatch.setattr(Lineage, "invariants", lambda self: None)


def _lineage_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Lineage, claims: Mapping[int, Claim]) -> None:
        self.heirs = self._heirs(claims)

    monkeypatch.setattr(Lineage, "decide", mutant)


def _heirs_without_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    install = Lineage.install

    def mutant(self: Lineage, number: int, members: Any, sites: SiteList) -> None:
        install(self, number, members, sites)
        self.heirs = self.heirs[1:]

    monkeypatch.setattr(Lineage, "install", mutant)


def _told_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `Used` comes with the next frame."""
    share_out = Roster._share_out

    def mutant(self: Any, event: Any, parts: Any, used: tuple[int, Used] | None) -> None:
        held, self.held = getattr(self, "held", None), used
        share_out(self, event, parts, held and (-1, held[1]))

    monkeypatch.setattr(Roster, "_share_out", mutant)


PLANTS: list[tuple[Plant, int]] = [
    (_everyone, 0),
    (_any_used_one_will_do, 23),
    (_exits_ignored, 142),
    (_nobody_has_to_remember, 0),
    (_restarted_sites_always_tell, 2),
    (_restarted_sites_never_tell, 0),
    (_older_programs_are_ignored, 10),
    (_stored_with_the_next_one, 0),
    (_starts_count, 0),
    (_kept_outside, 9),
    (_lineage_not_shared, 0),
    (_heirs_without_the_first, 1),
    (_told_late, 0),
]
"""Each with the seed at which the search begins."""


@pytest.mark.parametrize(("plant", "first"), PLANTS)
def test_a_planted_bug_is_found(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(_caught(seed) for seed in range(first, first + _SEARCHED))


def _caught(seed: int) -> bool:
    try:
        return bool(judge(run_line(seed)).violations)
    except AssertionError:
        return True
