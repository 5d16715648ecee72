"""Key files: only their owner can read them, and an invalid file is reported in one clear line."""

import base64
import logging
import stat
from pathlib import Path

import pytest
from tests.runtime.net.transports import Lines

from reconvene.errors import Malformed, Rejected
from reconvene.runtime.access.key_files import (
    MAX_CLUSTER_KEYS,
    add_client_key,
    load_client_keys,
    load_cluster_keys,
    write_cluster_key,
)

GOOD = base64.b64encode(bytes(range(32))).decode()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_cluster_key(tmp_path: Path) -> None:
    file = tmp_path / "cluster.key"
    made = write_cluster_key(file)
    assert mode(file) == 0o600
    head, line = file.read_text().splitlines()
    assert head.startswith("# reconvene cluster key")
    assert len(base64.b64decode(line)) == 32
    (read,) = load_cluster_keys([file])
    assert read.id == made.id
    with pytest.raises(Rejected, match="exists already; --force overwrites it"):
        write_cluster_key(file)
    assert load_cluster_keys([file])[0].id == made.id
    assert write_cluster_key(file, force=True).id != made.id
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.key"]


def test_the_order_of_keys_is_kept(tmp_path: Path) -> None:
    made = [write_cluster_key(tmp_path / name).id for name in "xya"]
    assert [key.id for key in load_cluster_keys([tmp_path / name for name in "xya"])] == made


def test_too_many_keys_and_the_same_twice(tmp_path: Path) -> None:
    write_cluster_key(tmp_path / "k")
    with pytest.raises(Rejected, match="the same key"):
        load_cluster_keys([tmp_path / "k"] * 2)
    with pytest.raises(Rejected, match="at most 8"):
        load_cluster_keys([tmp_path / "k"] * (MAX_CLUSTER_KEYS + 1))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ": holds no key"),
        ("# only a comment\n", ": holds no key"),
        (f"{GOOD[:-4]}\n", ":1: expected 32 bytes of base64"),
        (f"# a\n\n{GOOD}x\n", ":3: expected 32 bytes of base64"),
        (f"{GOOD}\n{GOOD}\n", ":2: expected nothing after the key"),
        ("ключ\n", ":1: expected 32 bytes of base64"),
    ],
)
def test_a_bad_cluster_key(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "k"
    file.write_text(text)
    with pytest.raises(Malformed) as caught:
        load_cluster_keys([file])
    assert str(caught.value).startswith(f"{file}{says}")
    assert GOOD[:8] not in str(caught.value), "a key is never shown"


def test_what_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="no such key file; `reconvene keygen"):
        load_cluster_keys([tmp_path / "none"])
    with pytest.raises(Rejected, match="can't be read"):
        load_cluster_keys([tmp_path])
    (tmp_path / "binary").write_bytes(b"\xff\xfe" * 20)
    with pytest.raises(Malformed, match="not text"):
        load_cluster_keys([tmp_path / "binary"])
    (tmp_path / "large").write_bytes(b"#" * (3 << 20))
    with pytest.raises(Malformed, match="expected a key file"):
        load_client_keys(tmp_path / "large")


def test_a_file_that_others_may_read_is_told(tmp_path: Path) -> None:
    lines, log = Lines(), logging.Logger("keys")
    log.addHandler(lines)
    file = tmp_path / "k"
    write_cluster_key(file)
    load_cluster_keys([file], log)
    assert lines.lines == []
    file.chmod(0o644)
    load_cluster_keys([file], log)
    assert "other users may read it" in lines.of("key_file_open")[0]["why"]


def test_client_keys(tmp_path: Path) -> None:
    file = tmp_path / "clients.toml"
    made = [
        add_client_key(file, name, role)
        for name, role in [("spark", "read"), ("shop-1", "append"), ("ops@site.example", "admin")]
    ]
    assert mode(file) == 0o600
    read = load_client_keys(file)
    assert list(read) == ["spark", "shop-1", "ops@site.example"]
    assert list(read.values()) == made
    assert len({key.key for key in made}) == 3
    assert "key=" not in repr(made[0])
    with pytest.raises(Rejected, match="spark has a key already"):
        add_client_key(file, "spark", "admin")
    again = add_client_key(file, "spark", "append", force=True)
    assert again.key != made[0].key
    assert load_client_keys(file)["spark"] == again
    assert load_client_keys(file)["shop-1"] == made[1]


@pytest.mark.parametrize(
    ("name", "role"), [("", "read"), ("a b", "read"), ("a\n", "read"), ("x" * 65, "read"), ("a", "root")]
)
def test_a_bad_client_is_not_written(tmp_path: Path, name: str, role: str) -> None:
    with pytest.raises(Rejected):
        add_client_key(tmp_path / "c", name, role)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = [\nb", "line 2"),
        ("a = 3", "a: expected {"),
        (f'a = {{ key = "{GOOD}" }}', "a.role: expected one of read, append, admin"),
        (f'a = {{ key = "{GOOD}", role = "root" }}', "a.role"),
        (f'a = {{ key = "{GOOD}", role = ["read"] }}', "a.role"),
        ('a = { role = "read" }', "a.key: expected 32 bytes of base64"),
        ('a = { key = "AAAA", role = "read" }', "a.key: expected 32 bytes of base64"),
        (f'a = {{ key = "{GOOD}", role = "read", rank = 1 }}', "a.rank: expected only key and role"),
        (f'"a b" = {{ key = "{GOOD}", role = "read" }}', "'a b': expected a name"),
    ],
)
def test_a_bad_file_of_client_keys(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "c"
    file.write_text(text)
    with pytest.raises(Malformed) as caught:
        load_client_keys(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert says in str(caught.value)
    assert GOOD not in str(caught.value)


def test_a_key_file_of_the_other_kind_is_told_as_one(tmp_path: Path) -> None:
    write_cluster_key(tmp_path / "cluster.key")
    add_client_key(tmp_path / "clients.toml", "x", "read")
    with pytest.raises(Malformed, match="is a cluster's key; expected a file of client keys"):
        load_client_keys(tmp_path / "cluster.key")
    with pytest.raises(Malformed, match="is a file of client keys; expected a cluster's key"):
        load_cluster_keys([tmp_path / "clients.toml"])
