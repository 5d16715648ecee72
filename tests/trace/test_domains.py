"""domains.json and the layout of a trace of domains."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconvene.errors import Malformed
from reconvene.trace.domains import (
    Domain,
    Domains,
    Pass,
    Tree,
    encode_domains,
    matches,
    read_domains,
    read_wide_trace,
    write_wide_trace,
)
from reconvene.trace.events import SCHEMA, Row, Run

BERLIN = Domain(name="berlin", nodes=["a", "b"], gateways=["b"], upper="world", passes=Pass(out=["*"], into=["b*"]))
PARIS = Domain(name="paris", nodes=["a"], gateways=["a"], upper="world", passes=Pass(out=["bank"], into=["*"]))
WORLD = Domain(name="world", nodes=["berlin.b", "paris.a"])
NODES = {"berlin": ["a", "b"], "paris": ["a"], "world": ["berlin.b", "paris.a"]}
WIDE = ["berlin/a", "berlin/b", "paris/a"]


def domains() -> Domains:
    return Domains(
        schema=SCHEMA,
        run="tour",
        seed=7,
        settled=True,
        components=[["berlin"], ["paris"]],
        down=["berlin/a"],
        domains=[BERLIN, PARIS, WORLD],
    )


def run(name: str, nodes: list[str], stack: str = "evs") -> Run:
    return Run(
        schema=SCHEMA,
        run=name,
        nodes=nodes,
        stack=stack,
        order="atop",
        seed=7,
        settled=True,
        components=[nodes],
        down=[],
        quorum={"kind": "majority"},
    )


def row(node: str, layer: str, n: int, **fields: Any) -> Row:
    return Row(node=node, inc=1, n=n, t=0, layer=layer, **fields)


def write(directory: Path) -> None:
    levels: dict[str, tuple[Run, dict[str, list[Row]]]] = {}
    for name, nodes in NODES.items():
        rows = {
            node: [row(node, "evs", 0, kind="conf", conf="1", conf_kind="regular", members=[node])] for node in nodes
        }
        levels[name] = (run(name, nodes), rows)
    rep = {node: [row(node, "wide", 1, kind="rep", conf="1", view=1, sender=node)] for node in WIDE}
    write_wide_trace(directory, domains(), levels, (run("tour", WIDE, "wide"), rep))


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write(tmp_path)
    trace = read_wide_trace(tmp_path)
    assert trace.domains == domains()
    assert sorted(trace.levels) == ["berlin", "paris", "world"]
    assert trace.wide.rows["berlin/b"][0].sender == "berlin/b"
    assert (tmp_path / "wide/berlin/b.jsonl").read_text().count("\n") == 1
    document = json.loads(encode_domains(domains()))
    assert list(document) == ["schema", "run", "seed", "settled", "components", "down", "domains"]
    assert document["domains"][0]["pass"] == {"out": ["*"], "in": ["b*"]}
    assert document["domains"][2] == {
        "name": "world",
        "nodes": ["berlin.b", "paris.a"],
        "gateways": [],
        "upper": None,
        "pass": None,
    }


def test_which_groups_pass_where() -> None:
    europe = [
        Domain(name="europe", nodes=["berlin.b", "paris.a"], gateways=["paris.a"], upper="earth",
               passes=Pass(out=["x"])),
        Domain(name="earth", nodes=["asia.t", "europe.paris.a"]),
        Domain(name="asia", nodes=["t"], gateways=["t"], upper="earth", passes=Pass(out=["*"], into=["*"])),
    ]  # fmt: skip
    below = [
        Domain(name=each.name, nodes=each.nodes, gateways=each.gateways, upper="europe", passes=each.passes)
        for each in (BERLIN, PARIS)
    ]
    tree = Tree([*europe, *below])
    assert tree.leaves == ["asia", "berlin", "paris"]
    assert tree.nodes == ["asia/t", *WIDE]
    assert tree.passes("anything", "berlin", "paris")
    assert tree.passes("bank", "paris", "berlin")
    assert not tree.passes("shop", "paris", "berlin")
    assert tree.passes("x", "berlin", "asia")
    assert not tree.passes("bank", "berlin", "asia"), "europe does not let it out"
    assert not tree.passes("x", "asia", "berlin"), "europe lets nothing in"
    assert tree.passes("anything", "berlin", "berlin")


@pytest.mark.parametrize(
    ("pattern", "group", "expected"),
    [("*", "", True), ("bank", "bank", True), ("bank", "banks", False), ("b*k", "bank", True),
     ("b?nk", "bank", False), ("a.*", "a.b", True), ("a.*", "axb", False), ("*", "two\nlines", True)],
)  # fmt: skip
def test_a_star_matches_any_characters(pattern: str, group: str, expected: bool) -> None:
    assert matches([pattern], group) is expected


def _edit(path: str, value: Any) -> Callable[[Any], None]:
    def edit(document: Any) -> None:
        *way, last = path.split(".")
        for step in way:
            document = document[int(step) if step.isdecimal() else step]
        document[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_edit("schema", 3), "`schema` is 3; expected 2"),
        (_edit("components", [["rome"]]), "`components` names rome"),
        (_edit("components", [["paris"], ["paris"]]), "once at most"),
        (_edit("down", ["paris"]), "`down` names paris, which is no DOMAIN/SITE"),
        (_edit("domains", []), "at least one"),
        (_edit("domains.0.name", "wide"), "'wide'; expected a name that can name a directory, other than wide"),
        (_edit("domains.0.name", "../x"), "expected a name that can name a directory"),
        (_edit("domains.0.name", "paris"), "name each domain once"),
        (_edit("domains.0.gateways", ["z"]), "`gateways` names z"),
        (_edit("domains.0.gateways", ["a"]), "domain world: `nodes` lacks berlin.a"),
        (_edit("domains.0.upper", "mars"), "`upper` is mars"),
        (_edit("domains.0.upper", None), "one root"),
        (_edit("domains.2.upper", "paris"), "one root"),
        (_edit("domains.0.nodes", ["b", "b"]), "name each site once"),
        (_edit("domains.0.nodes", "b"), "Expected `array`"),
        (_edit("domains.0.pass", {"out": "*"}), "Expected `array`"),
        (lambda document: document.pop("settled"), "missing required field `settled`"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, edit: Callable[[Any], None], expected: str) -> None:
    document = json.loads(encode_domains(domains()))
    edit(document)
    (tmp_path / "domains.json").write_text(json.dumps(document))
    with pytest.raises(Malformed) as refused:
        read_domains(tmp_path)
    assert expected in str(refused.value)
    assert str(tmp_path / "domains.json") in str(refused.value)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("berlin/a.jsonl", None, "is missing"),
        ("wide/berlin/a.jsonl", None, "is missing"),
        ("wide/rome/a.jsonl", "", "belongs to no node"),
        ("wide/run.json", '"stack": "evs"', "expected 'wide'"),
        ("paris/run.json", '"stack": "wide"', "a part of a trace of domains"),
        ("wide/berlin/a.jsonl", '{"node":"berlin/a","inc":1,"n":1,"t":0,"layer":"evs","kind":"send"}\n',
         "expected wide"),
        ("wide/berlin/a.jsonl", '{"node":"berlin/a","inc":1,"n":1,"t":0,"layer":"wide","kind":"x"}\n',
         "expected conf, "),
        ("wide/berlin/a.jsonl", '{"node":"berlin/a","inc":1,"n":1,"t":0,"layer":"wide","kind":"rep","conf":"1"}\n',
         "`view` is missing"),
        ("berlin/a.jsonl", '{"node":"a","inc":1,"n":1,"t":0,"layer":"wide","kind":"rep","conf":"1"}\n', "'wide'"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_refused(tmp_path: Path, file: str, text: str | None, expected: str) -> None:
    write(tmp_path)
    path = tmp_path / file
    if text is None:
        path.unlink()
    elif path.name == "run.json":
        path.write_text(path.read_text().replace('"stack": "wide"', text).replace('"stack": "evs"', text))
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    with pytest.raises(Malformed, match="(?s)" + expected.replace("(", "[(]")):
        read_wide_trace(tmp_path)


def test_another_set_of_nodes_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "paris/run.json"
    path.write_text(path.read_text().replace('"a"', '"c"'))
    (tmp_path / "paris/a.jsonl").rename(tmp_path / "paris/c.jsonl")
    text = (tmp_path / "paris/c.jsonl").read_text()
    (tmp_path / "paris/c.jsonl").write_text(text.replace('"node":"a"', '"node":"c"'))
    with pytest.raises(Malformed, match=r"`nodes` differs from domains[.]json: it lacks a"):
        read_wide_trace(tmp_path)
