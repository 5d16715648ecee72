import json
from pathlib import Path

import pytest

from reconvene.cli import main
from reconvene.verify import engine


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["demo", *arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_it_tells_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out, "no colour without a terminal"
    for word in ("transitional(r,s,t) r3", "hidden", "they reconvene", "All holds."):
        assert word in captured.out


@pytest.mark.parametrize("seed", ["1", "2", "99"])
def test_the_story_does_not_depend_on_the_seed(seed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--seed", seed) == 0
    assert "hidden" in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert len(document["scenes"]) == 6
    parted = document["scenes"][2]["sites"]
    assert (parted["p"]["members"], parted["p"]["delivered"]) == (["p", "q"], [])
    assert (parted["t"]["members"], parted["t"]["delivered"]) == (["r", "s", "t"], ["r3"])
    assert document["scenes"][5]["sites"]["p"]["members"] == ["p", "q", "r", "s", "t"]


def test_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--svg", str(tmp_path / "demo.svg")) == 0
    assert "<svg" in (tmp_path / "demo.svg").read_text()
    capsys.readouterr()
    assert call("--svg", str(tmp_path / "none" / "demo.svg")) == 2
    assert "--svg: expected a file" in capsys.readouterr().err


def test_what_does_not_hold_is_exit_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import reconvene.testing.cluster as testing
    from reconvene.verify.history import History
    from reconvene.verify.report import Report

    def with_a_swap(histories: list[History]) -> Report:
        history = histories[0]
        deliveries = [event for event, ts in enumerate(history.ts) if ts >= 0][-2:]
        one, other = deliveries
        history.ts[one], history.ts[other] = history.ts[other], history.ts[one]
        return engine.verify(histories)

    monkeypatch.setattr(testing, "verify", with_a_swap)
    assert call() == 1
    assert "Something does not hold: " in capsys.readouterr().out
