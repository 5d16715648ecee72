"""reconvene keygen."""

import json
import stat
from pathlib import Path

import pytest

from reconvene.cli import main
from reconvene.runtime.access.key_files import load_client_keys, load_cluster_keys


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["keygen", *map(str, arguments)])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_a_cluster_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.key"
    assert call(file) == 0
    (key,) = load_cluster_keys([file])
    out = capsys.readouterr().out
    assert key.id.hex() in out
    assert file.read_text().splitlines()[1] not in out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert call(file) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    assert call(file, "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "key": load_cluster_keys([file])[0].id.hex()}


def test_a_client_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "clients.toml"
    assert call("--client", "spark", "--role", "read", file) == 0
    assert call("--client", "ops", "--role", "admin", file, "--json") == 0
    assert {name: key.role for name, key in load_client_keys(file).items()} == {"spark": "read", "ops": "admin"}
    assert "role read" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "FILE"),
        (["--role", "read", "x"], "--role: expected with --client"),
        (["--client", "spark", "x"], "--client spark: expected with --role read|append|admin"),
        (["--client", "spark", "--role", "root", "x"], "--role root: expected one of read, append, admin"),
        (["--client", "a b", "--role", "read", "x"], "--client a b: expected"),
        (["nowhere/at/all"], "nowhere/at/all: can't be written"),
        (["."], "expected a file, not a directory"),
        ([".", "--force"], "expected a file, not a directory"),
    ],
)
def test_bad_usage_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err
    assert list(tmp_path.iterdir()) == []
