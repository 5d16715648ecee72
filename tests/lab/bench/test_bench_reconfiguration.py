"""bench reconfiguration: its rows, and real sites cut off, healed and killed."""

import pytest

from reconvene.errors import Unavailable
from reconvene.lab import namespaces
from reconvene.lab.bench import Settings, reconfiguration, sites
from reconvene.lab.bench.figures import Reconfiguration
from reconvene.lab.bench.peers import cpg
from reconvene.lab.bench.peers.corosync import Options
from reconvene.lab.bench.sites import Setup

REASON = namespaces.available()
needs_namespaces = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "available", lambda: None)
    setups, options = [], []

    def ours(setup: Setup, heals: int) -> Reconfiguration:
        setups.append(setup)
        return Reconfiguration((100.0,) * heals, (50.0,) * heals, 120.0, 0.0)

    def theirs(of: Options, heals: int) -> Reconfiguration:
        options.append(of)
        return Reconfiguration((400.0,) * heals, (25.0,) * heals, 480.0, 0.0)

    monkeypatch.setattr(sites, "reconfiguration", ours)
    monkeypatch.setattr(cpg, "reconfiguration", theirs)
    sheet = reconfiguration.run(Settings(quick=True, peers=("corosync",)))
    rows = {(row.work, row.system): (row.value, row.against, row.ratio) for row in sheet.rows}
    assert rows["kill -9 to a new configuration", "reconvene, defaults"] == (120.0, "corosync udpu, defaults", 0.25)
    assert rows["a heal to the merged configuration", "reconvene, suspicion after 200 ms"] == (
        50.0, "corosync udpu, token 200 ms", 2.0,
    )  # fmt: skip
    assert rows["a cut to a new configuration", "corosync udpu, defaults"] == (400.0, None, None)
    assert [setup.suspect_ms for setup in setups] == [None, 200]
    assert [of.token_ms for of in options] == [None, 200]


def test_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "available", lambda: "network namespaces need root")
    with pytest.raises(Unavailable, match="bench reconfiguration: network namespaces need root"):
        reconfiguration.run(Settings())


@pytest.mark.long("starts real sites")
@needs_namespaces
def test_real_sites() -> None:
    got = sites.reconfiguration(Setup(mtu=1500, suspect_ms=300), heals=1, per_second=50)
    assert got.cut_ms > 0
    assert got.heal_ms > 0
    assert got.crash_ms > 0
