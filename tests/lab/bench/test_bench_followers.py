"""`bench followers`: its rows, with fewer followers."""

import pytest

from reconvene.lab.bench import Settings, followers


@pytest.mark.long("real processes under load, a minute")
def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "FOLLOWERS", 3)
    sheet = followers.run(Settings(quick=True))
    compared = {(row.work.rpartition(", ")[2], row.system): row.ratio for row in sheet.rows if row.against}
    assert list(compared) == [
        ("own cores", "3 followers"),
        ("shared cores", "3 followers"),
        ("read 1000 messages of 100 B", "a follower"),
    ]
    assert all(ratio is not None and ratio > 0.1 for ratio in compared.values())
    assert "messages behind" in sheet.notes[0]
