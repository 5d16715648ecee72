"""bench turns: its rows and its target, and a short run of real sites."""

from pathlib import Path

import pytest

from reconvene.lab.bench import Settings, turns
from reconvene.lab.bench.turns import Measured


@pytest.mark.parametrize(("longest_ms", "verdict"), [(100.0, "0.16, met"), (200.0, "0.32, missed")])
def test_the_longest_turn_is_compared_with_the_time_to_suspicion(
    monkeypatch: pytest.MonkeyPatch, longest_ms: float, verdict: str
) -> None:
    told = [{"turn_ms": 5.0, "stood_ms": 8.0, "work_ms": 4.0, "configurations": 3.0}]
    told.append({**told[0], "turn_ms": longest_ms})
    monkeypatch.setattr(turns, "_works", lambda quick: [("much", lambda place: Measured(told, 1234.0, 630.0))])
    sheet = turns.run(Settings(quick=True))
    assert sheet.notes[1] == f"longest turn below 0.25 of that: {verdict}"
    rows = {(row.work, row.system): row for row in sheet.rows}
    assert rows["much: longest turn", "site 1"].ratio == pytest.approx(longest_ms / 630, rel=1e-3)
    assert rows["longest turn of all, over the time to suspicion", "reconvene"].value == pytest.approx(
        longest_ms / 630, rel=1e-3
    )
    assert sheet.tables[0].lines[0][:2] == ("much", f"{longest_ms:.0f}")


def test_real_sites_tell_their_longest_turn(tmp_path: Path) -> None:
    told = turns._rejoin(50, 1000)(tmp_path)
    assert len(told.sites) == 3
    assert told.suspicion_ms == 630
    assert all(site["turn_ms"] > 0 and site["configurations"] >= 1 for site in told.sites)
