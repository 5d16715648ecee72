"""`bench followers`: its rows, with fewer followers."""

import pytest

from reconvene.lab.bench import Settings, followers


def test_replicas_are_where_the_disks_interrupts_are() -> None:
    assert followers._halves([0, 1], {0: 5, 1: 900}) == ([1], [0])
    assert followers._halves([0, 1, 2, 3], {1: 7, 2: 3, 3: 3}) == ([0, 1], [2, 3])
    assert followers._halves([2], {}) == ([2], [2])
    assert sum(followers._interrupts().values()) > 0


@pytest.mark.long("real processes under load, a minute")
def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "FOLLOWERS", 3)
    sheet = followers.run(Settings(quick=True))
    compared = {
        (row.work.rpartition(", ")[2], row.unit): row.ratio
        for row in sheet.rows
        if row.against and row.system != "the first follower"
    }
    by_work = "appends/s of replicas' processor time"
    assert list(compared) == [
        ("own cores", "appends/s"),
        ("own cores", by_work),
        ("shared cores", "appends/s"),
        ("shared cores", by_work),
        ("read 1000 messages of 100 B", "reads/s"),
    ]
    assert all(ratio is not None and ratio > 0.1 for ratio in compared.values())
    assert sum(row.system == "the first follower" for row in sheet.rows) == len(compared) - 1
    assert any("messages behind" in note for note in sheet.notes)
    late = {(row.work, row.system) for row in sheet.rows if row.unit == "ms"}
    assert len(late) == 4, "alone and under load, at the first follower and at the last"
