"""[domain]: a cluster that is joined with others; every mistake is one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconvene.cli import main
from reconvene.errors import Malformed, Rejected
from reconvene.runtime.access.key_files import write_cluster_key
from reconvene.runtime.config.check_domain import check_together, domains_above
from reconvene.runtime.config.file import load
from reconvene.runtime.domain.tree import tree_of, upper_config
from reconvene.runtime.node.explain import explain
from reconvene.runtime.node.preflight import load_secrets

GOOD = """
cluster = "berlin"
name = "a"
dir = "data"

[sites]
a = "127.0.0.1:7001"
b = "127.0.0.1:7002"
c = "127.0.0.1:7003"

[seal]
keys = ["berlin.key"]

[domain]
gateways = ["b", "a"]

[domain.pass]
out = ["orders*"]
in = ["*"]

[domain.upper]
cluster = "world"
keys = ["world.key"]

[domain.upper.sites]
"berlin.a" = "127.0.0.1:7101"
"berlin.b" = "127.0.0.1:7102"
"paris.x" = "127.0.0.1:7103"
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    for level in ("berlin", "world"):
        write_cluster_key(tmp_path / f"{level}.key")

    def to_file(*changes: tuple[str, str], name: str = "site.toml") -> Path:
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return to_file


def test_a_gateway(write: Write) -> None:
    config = load(write())
    assert config.domain is not None
    assert config.is_gateway
    assert domains_above(config.domain) == ("berlin", "paris")
    tree = tree_of(config, config.names)
    assert tree.upper == ("berlin.a", "berlin.b", "paris.x")
    assert tree.domains["berlin"].gateways == ("b", "a")
    assert len(tree.domains["paris"].sites) == 64, "how many sites another cluster has is not known"
    assert tree.domains["berlin"].passes_out("orders.eu")
    assert not tree.domains["berlin"].passes_out("stock")
    above = upper_config(config)
    assert (above.cluster, above.name, above.names) == ("world", "berlin.a", tree.upper)
    assert above.dir == config.dir / "upper"
    assert above.seal.keys == config.domain.upper.keys
    load_secrets(config)


def test_nothing_passes_by_default(write: Write) -> None:
    config = load(write(('out = ["orders*"]\nin = ["*"]', "")))
    tree = tree_of(config, config.names)
    assert not tree.domains["berlin"].passes_out("orders")
    assert not tree.domains["berlin"].passes_in("orders")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([('gateways = ["b", "a"]', 'gateways = ["b", "z"]')], "domain.gateways: 'z' is not in this cluster"),
        ([('gateways = ["b", "a"]', 'gateways = ["b", "b"]')], "domain.gateways: b is named twice"),
        ([('gateways = ["b", "a"]', "gateways = []")], "domain.gateways: expected at least one site"),
        ([('gateways = ["b", "a"]', 'gateways = ["b", "a", "c"]')], "domain.upper.sites: missing berlin.c"),
        (
            [('gateways = ["b", "a"]', 'gateways = ["a"]')],
            "berlin.b: b is not in domain.gateways",
        ),
        (
            [("[domain]", '[limits]\nmessage_bytes = "1MiB"\n[domain]')],
            "limits.message_bytes: expected at least 2MiB where there is [domain], not 1MiB",
        ),
        ([('cluster = "world"', 'cluster = "berlin"')], "domain.upper.cluster: berlin would be above itself"),
        ([('cluster = "world"', 'cluster = "paris"')], "domain.upper.cluster: paris would be above itself"),
        ([('cluster = "world"', 'cluster = "wide"')], "domain.upper.cluster: expected a name without '.'"),
        ([('cluster = "berlin"', 'cluster = "ber.lin"')], "cluster: expected a name without '.'"),
        ([("world.key", "berlin.key")], "domain.upper.keys: has a key file of seal.keys"),
        ([('keys = ["world.key"]', "")], "domain.upper.keys: missing"),
        ([('"paris.x" =', '"paris" =')], "domain.upper.sites: expected names such as berlin.a, not 'paris'"),
        ([("7103", "7102")], "belongs to berlin.b already"),
        ([("7103", "7003")], "has the address of a site of [sites]"),
        ([('out = ["orders*"]', 'out = [""]')], "domain.pass.out: expected patterns"),
        ([("[domain.pass]", "[domain.passes]")], "domain.passes: unknown key; did you mean pass?"),
    ],
)
def test_mistakes(write: Write, changes: list[tuple[str, str]], expected: str) -> None:
    with pytest.raises(Malformed) as caught:
        load(write(*changes))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_levels_with_one_key_in_two_files(write: Write, tmp_path: Path) -> None:
    (tmp_path / "world.key").write_bytes((tmp_path / "berlin.key").read_bytes())
    with pytest.raises(Rejected, match="expected a key of its own for each level"):
        load_secrets(load(write()))


def test_rules_that_differ_between_gateways(write: Write) -> None:
    one = write()
    two = write(('name = "a"', 'name = "b"'), ('in = ["*"]', 'in = ["stock"]'), name="two.toml")
    with pytest.raises(Malformed, match=r"two.toml: domain.pass: differs from .*site.toml"):
        check_together([(str(path), load(path)) for path in (one, two)])
    three = write(('name = "a"', 'name = "c"'), ('["b", "a"]', '["a", "b"]'), name="three.toml")
    with pytest.raises(Malformed, match=r"three.toml: domain.gateways: differs from"):
        check_together([(str(path), load(path)) for path in (one, three)])


def test_a_circle_of_clusters(write: Write) -> None:
    below = write()
    world = write(
        ('cluster = "berlin"', 'cluster = "world"'), ('cluster = "world"', 'cluster = "globe"'),
        ('"berlin.a"', '"world.a"'), ('"berlin.b"', '"world.b"'), ('cluster = "globe"', 'cluster = "world"'),
        ('cluster = "world"\nkeys', 'cluster = "berlin"\nkeys'), name="world.toml",
    )  # fmt: skip
    with pytest.raises(Malformed, match="a circle of clusters: berlin below world below berlin"):
        check_together([(str(path), load(path)) for path in (below, world)])


def test_the_command_compares_files(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    one = write()
    same = write(('name = "a"', 'name = "b"'), name="same.toml")
    other = write(('name = "a"', 'name = "b"'), ('in = ["*"]', ""), name="other.toml")
    with pytest.raises(SystemExit) as ended:
        main(["node", "--check", "--config", str(one), "--with", str(same)])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "above cluster world, which joins berlin, paris" in shown
    assert "gateways b, a; this site is berlin.a at 127.0.0.1:7101, key" in shown
    assert "passes out orders*; in *" in shown
    with pytest.raises(SystemExit) as ended:
        main(["node", "--check", "--config", str(one), "--with", str(other)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "domain.pass: differs" in error


def test_warnings(write: Write) -> None:
    alone = load(write(('gateways = ["b", "a"]', 'gateways = ["a"]'), ('"berlin.b" = "127.0.0.1:7102"\n', "")))
    assert any("without a second one" in warning for warning in explain(alone).warnings)
    ordinary = load(write(('name = "a"', 'name = "c"'), ('out = ["orders*"]\nin = ["*"]', "")))
    found = explain(ordinary).warnings
    assert any("nothing leaves the cluster" in warning for warning in found)
    assert any("needs no key of the cluster above" in warning for warning in found)
