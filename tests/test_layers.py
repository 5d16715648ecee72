"""Imports point downward only, and the protocol layers touch nothing of the outside world.

`LAYERS` is the picture of docs/architecture.md as a table. A new module that no layer names fails the test: decide
where it belongs, and write it there.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"


@dataclass(frozen=True)
class Layer:
    name: str
    modules: tuple[str, ...]
    """Under reconvene; `x.*` is the package x with all that is in it."""
    uses: tuple[str, ...]
    """Layers that it may import, besides itself: only ones that the table, which goes bottom up, names before it."""
    pure: bool = False
    """Sans-IO: nothing but what `PURE` names comes in from outside."""


LAYERS = (
    Layer("words", ("ids", "errors", "units", "quorum", "voting", "site_list", "list_change"), uses=(), pure=True),
    Layer("world", ("world", "room", "transports"), uses=()),
    Layer("wire", ("wire.*",), uses=("words",), pure=True),
    Layer(
        "interface",
        ("core.effects", "core.outgoing", "core.options", "core.order.engine"),
        uses=("words", "wire"),
        pure=True,
    ),
    Layer("multicast", ("core.multicast.*",), uses=("words", "wire", "interface"), pure=True),
    Layer("membership", ("core.membership.*",), uses=("words", "wire", "interface"), pure=True),
    Layer("evs", ("core.evs.*",), uses=("words", "wire", "interface", "multicast"), pure=True),
    Layer("order", ("core.order.*",), uses=("words", "wire", "interface"), pure=True),
    Layer(
        "site",
        ("core", "core.site", "core.changes", "core.record", "core.beacons", "core.joining"),
        uses=("words", "wire", "interface", "multicast", "membership", "evs", "order"),
        pure=True,
    ),
    # Which primary configuration is used: groups with the filter and ISIS go by it.
    Layer("lineage", ("core.groups.lineage",), uses=("words",), pure=True),
    Layer("groups", ("core.groups.*",), uses=("words", "wire", "interface", "site", "lineage"), pure=True),
    Layer("intersite", ("core.intersite.*",), uses=("words", "wire", "interface", "multicast"), pure=True),
    Layer("tables", ("storage.tables", "storage.memory"), uses=("words",), pure=True),
    Layer("isis", ("isis.*",), uses=("words", "wire", "interface", "groups", "intersite", "tables"), pure=True),
    Layer("corel", ("corel.*",), uses=("words", "interface", "tables"), pure=True),
    # Clusters that are joined by representatives.
    Layer("domains", ("domains.*",), uses=("words", "interface"), pure=True),
    # One object for all of the core: what a shell drives.
    Layer(
        "stack",
        ("stack.*",),
        uses=("words", "wire", "interface", "site", "groups", "intersite", "isis", "tables", "corel", "domains"),
        pure=True,
    ),
    # Entries and batches of the log: one struct in a site, between a site and its clients, and in Spark.
    Layer("entries", ("entries",), uses=("words", "corel"), pure=True),
    Layer(
        "protocol",
        ("wire.clients", "wire.client_log", "wire.client_isis"),
        uses=("words", "entries", "corel"),
        pure=True,
    ),
    # The log in places without a replica.
    Layer("outpost", ("outpost.*",), uses=("words", "tables", "corel", "entries", "protocol"), pure=True),
    Layer("seal", ("wire.seal", "wire.trains", "wire.records", "wire.handshake"), uses=("words", "wire", "protocol")),
    Layer("storage", ("storage.*",), uses=("words", "tables")),
    Layer("trace", ("trace.*",), uses=("words",)),
    # The judge: it knows traces, and nothing of who made them.
    Layer("verify", ("verify.*",), uses=("words", "trace")),
    Layer(
        "recorder",
        (
            "trace.recorder",
            "trace.group_recorder",
            "trace.log_recorder",
            "trace.outpost_recorder",
            "trace.forwarded_rows",
            "trace.isis_recorder",
            "trace.wide_recorder",
        ),
        uses=("words", "interface", "groups", "isis", "corel", "domains", "trace"),
    ),
    Layer(
        "sim",
        ("sim.*",),
        uses=(
            *("words", "wire", "interface", "site", "groups", "intersite", "isis", "tables", "corel", "stack"),
            *("domains", "protocol", "outpost", "trace", "recorder"),
        ),
    ),
    # One site as a process: the shell around the core that has sockets, files and a clock.
    Layer("config", ("runtime", "runtime.config.*"), uses=("words", "interface", "isis", "corel")),
    Layer("diagnostics", ("runtime.diagnostics.*",), uses=("config",)),
    Layer("access", ("runtime.access.*",), uses=("words", "protocol", "seal", "world", "config", "diagnostics")),
    Layer("outside", ("runtime.outside",), uses=("words", "stack", "tables", "corel", "diagnostics")),
    Layer("disk", ("runtime.disk.*",), uses=("words", "stack", "tables", "storage", "diagnostics", "outside")),
    Layer(
        "net",
        ("runtime.net.*",),
        uses=(*("words", "wire", "multicast", "seal", "site", "config", "diagnostics", "access", "outside"),),
    ),
    Layer(
        "log",
        ("runtime.log.*",),
        uses=(
            *("words", "world", "tables", "corel", "entries", "protocol", "storage", "config", "diagnostics", "disk"),
        ),
    ),
    Layer("processes", ("runtime.isis.*",), uses=("words", "groups", "isis")),
    # A site's part in a tree of clusters.
    Layer(
        "joined",
        ("runtime.domain.*",),
        uses=("words", "world", "interface", "groups", "stack", "isis", "domains", "config", "diagnostics"),
    ),
    # What clients and HTTP see of a site: neither of them imports the engine.
    Layer(
        "running",
        ("runtime.site.interface", "runtime.site.history"),
        uses=("words", "world", "groups", "diagnostics", "log", "processes", "joined"),
    ),
    Layer(
        "engine",
        ("runtime.site.*",),
        uses=(
            *(
                "words",
                "world",
                "interface",
                "site",
                "groups",
                "intersite",
                "isis",
                "tables",
                "corel",
                "stack",
                "domains",
                "trace",
            ),
            *("recorder", "config", "diagnostics", "outside", "disk", "net", "log", "processes", "joined", "running"),
        ),
    ),
    Layer(
        "clients",
        ("runtime.clients.*",),
        uses=(
            *("words", "world", "protocol", "seal", "groups", "isis", "corel", "entries"),
            *("config", "diagnostics", "access", "log", "processes", "joined", "running"),
        ),
    ),
    Layer(
        "http",
        ("runtime.http.*",),
        uses=(
            *("words", "world", "groups", "corel", "entries", "protocol", "trace", "config", "diagnostics", "access"),
            *("net", "log", "processes", "joined", "running"),
        ),
    ),
    Layer(
        "node",
        ("runtime.node.*",),
        uses=(
            *("words", "world", "wire", "interface", "site", "tables", "corel", "storage", "trace"),
            *("config", "diagnostics", "access", "outside", "disk", "net", "log", "joined", "running", "engine"),
            *("clients", "http"),
        ),
    ),
    # What applications import. A remote client needs the wire alone; only a site inside the program needs runtime.
    Layer(
        "client",
        ("client.*",),
        uses=(
            *("words", "protocol", "seal", "interface", "groups", "isis", "corel", "entries", "world"),
            *(
                "config",
                "diagnostics",
                "access",
                "outside",
                "log",
                "processes",
                "joined",
                "running",
                "clients",
                "node",
            ),
        ),
    ),
    # An outpost of the log as a process: a small engine, the site's listener for clients, and a client of its own.
    Layer(
        "outpost_site",
        ("outpost_site.*",),
        uses=(
            *(
                "words",
                "world",
                "groups",
                "stack",
                "tables",
                "corel",
                "entries",
                "protocol",
                "outpost",
                "trace",
                "recorder",
                "config",
            ),
            *("diagnostics", "access", "outside", "disk", "net", "log", "processes", "running", "engine", "clients"),
            *("http", "node", "client"),
        ),
    ),
    Layer("objects", ("objects.*",), uses=("words", "world", "entries", "client")),
    # Clusters of real processes on this machine.
    Layer(
        "local",
        ("local.*",),
        uses=(*("words", "protocol", "seal", "trace", "access", "net", "engine", "entries", "client", "objects"),),
    ),
    # The real site and the real client on a simulated network, for other people's tests.
    Layer(
        "testing",
        ("testing.*",),
        uses=(
            *("words", "interface", "stack", "tables", "trace", "verify", "sim", "client", "local"),
            *("config", "diagnostics", "access", "net", "engine", "clients"),
        ),
    ),
    Layer("public", ("", "blocking", "build"), uses=("words", "entries", "config", "access", "client")),
    # Pages for people, from plain data.
    Layer("report", ("report.*",), uses=("words", "trace", "verify")),
    # What a site would find on this machine.
    Layer("doctor", ("doctor.*",), uses=("words", "config", "access", "disk", "net", "node", "public")),
    # All that needs Spark.
    Layer(
        "pipeline",
        ("pipeline.*", "pyspark_reconvene.*"),
        uses=(
            *("words", "seal", "corel", "entries", "trace", "verify", "sim", "client", "local", "public"),
            *("report", "doctor"),
        ),
    ),
    # Behaviour without faults, made up from the definitions: like the judge, it knows traces alone.
    Layer("ideal", ("lab.ideal.*",), uses=("words", "trace")),
    # What never runs inside a site: benchmarks, the demo, the soak, campaigns, generated traces.
    Layer(
        "lab",
        ("lab.*",),
        uses=(
            *("words", "wire", "seal", "interface", "multicast", "membership", "evs", "order", "site", "groups"),
            *("intersite", "isis", "corel", "domains", "entries", "protocol"),
            *("trace", "verify", "sim", "config", "access", "node", "client", "objects", "local"),
            *("public", "report", "pipeline"),
        ),
    ),
    Layer(
        "cli",
        ("cli.*", "__main__"),
        uses=(
            *("words", "interface", "entries", "seal", "trace", "verify", "sim", "config", "access", "log", "node"),
            *("outside", "outpost_site", "client", "local", "public", "report", "doctor", "pipeline", "lab"),
        ),
    ),
)

PURE = {
    *("__future__", "abc", "bisect", "collections", "dataclasses", "enum", "functools", "heapq", "itertools"),
    *("math", "msgspec", "operator", "re", "struct", "typing", "zlib"),
}
"""What the protocol layers may import from outside: all of it computes, none of it looks around."""

IMPURE_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "hash", "id", "input", "open", "print"}
"""Builtins that reach outside, or answer differently from run to run."""


@cache
def modules(source: Path) -> dict[str, Path]:
    """Every module below `source`, by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def layer_of(module: str) -> Layer | None:
    """The layer that names the module most exactly."""
    name = module.removeprefix("reconvene").removeprefix(".")
    for layer in LAYERS:
        if name in layer.modules:
            return layer
    while name:
        for layer in LAYERS:
            if f"{name}.*" in layer.modules:
                return layer
        name = name.rpartition(".")[0]
    return None


class Outward(NamedTuple):
    """What a module's text says of other modules and of the outside world, wherever it stands."""

    imports: list[ast.Import | ast.ImportFrom]
    impure_calls: list[tuple[int, str]]
    """(line, name)"""


@cache
def outward(text: str) -> Outward:
    found = Outward([], [])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            found.impure_calls.append((node.lineno, node.func.id))
    return found


def imports(text: str, module: str, is_package: bool, known: Mapping[str, Path]) -> Iterator[tuple[int, str]]:
    """(line, module) of every import; `from a import b` is a.b where that is a module."""
    for node in outward(text).imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
            continue
        base = node.module or ""
        if node.level:
            parts = module.split(".")
            parents = parts[: len(parts) - node.level + is_package]
            base = ".".join([*parents, *filter(None, [node.module])])
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield node.lineno, inner if inner in known else base


def offences(module: str, text: str, known: Mapping[str, Path], is_package: bool = False) -> list[str]:
    """What the module does that its layer may not."""
    layer = layer_of(module)
    if layer is None:
        return [f"{module}: no layer names it: place it in LAYERS"]
    found = []
    for line, target in imports(text, module, is_package, known):
        if target.partition(".")[0] != "reconvene":
            if layer.pure and target.partition(".")[0] not in PURE:
                found.append(f"{module}:{line}: imports {target}, but the {layer.name} layer is sans-IO")
            continue
        other = layer_of(target)
        if other is None:
            found.append(f"{module}:{line}: imports {target}, which no layer names")
        elif other is not layer and other.name not in layer.uses:
            found.append(f"{module}:{line}: the {layer.name} layer may not import {target} ({other.name})")
    if layer.pure:
        found += [
            f"{module}:{line}: calls {name}(), but the {layer.name} layer is sans-IO"
            for line, name in outward(text).impure_calls
        ]
    return found


def test_every_module_keeps_to_its_layer() -> None:
    known = modules(SOURCE)
    found = [
        offence
        for module, path in known.items()
        for offence in offences(module, path.read_text(), known, path.name == "__init__.py")
    ]
    assert not found, "\n".join(found)


def test_the_table_points_downward() -> None:
    below: set[str] = set()
    for layer in LAYERS:
        assert set(layer.uses) <= below, f"{layer.name} uses a layer that the table does not name before it"
        below.add(layer.name)


def test_the_architecture_page_has_the_same_layers() -> None:
    page = (SOURCE.parent / "docs/architecture.md").read_text()
    table = page.partition("| layer | where |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| (\w+) \|", table, flags=re.MULTILINE) == [layer.name for layer in LAYERS]


def test_a_pure_layer_uses_only_pure_ones() -> None:
    pure = {layer.name for layer in LAYERS if layer.pure}
    for layer in LAYERS:
        assert not layer.pure or set(layer.uses) <= pure


def test_only_the_commands_of_the_lab_import_it() -> None:
    """A program imports one command's module: the others' users never load the lab."""
    known = modules(SOURCE)
    importers = {
        module
        for module, path in known.items()
        if not module.startswith("reconvene.lab")
        for _, target in imports(path.read_text(), module, path.name == "__init__.py", known)
        if target.startswith("reconvene.lab")
    }
    assert importers == {f"reconvene.cli.{name}" for name in ("bench", "campaign", "demo", "trace_make")}


@pytest.mark.parametrize(
    ("module", "source", "offence"),
    [
        ("core.site", "import socket", "imports socket, but the site layer is sans-IO"),
        ("core.site", "from time import monotonic_ns", "imports time, but the site layer is sans-IO"),
        ("core.site", "import os.path", "imports os.path, but the site layer is sans-IO"),
        ("core.site", "def f():\n    import random", "imports random, but the site layer is sans-IO"),
        ("core.site", "open('x')", "calls open(), but the site layer is sans-IO"),
        ("core.site", "from reconvene.sim import network", "the site layer may not import reconvene.sim"),
        ("core.site", "from reconvene import verify", "the site layer may not import reconvene.verify"),
        ("core.site", "from ..trace import events", "the site layer may not import reconvene.trace.events"),
        ("core.order.engine", "from .. import site", "the interface layer may not import reconvene.core.site"),
        ("core.order.engine", "import reconvene.core.site", "may not import reconvene.core.site (site)"),
        ("wire.messages", "from reconvene.core.effects import Effects", "the wire layer may not import"),
        ("wire.messages", "import reconvene", "the wire layer may not import reconvene (public)"),
        ("verify.evs", "from reconvene.core.effects import Sent", "the verify layer may not import"),
        ("verify.evs", "from reconvene.sim.scenario import load", "the verify layer may not import"),
        ("verify.evs", "import reconvene.trace.recorder", "may not import reconvene.trace.recorder (recorder)"),
        ("sim.network", "import reconvene.cli.demo", "the sim layer may not import reconvene.cli.demo"),
        ("pipeline.tally", "import reconvene.lab.soak", "the pipeline layer may not import reconvene.lab.soak (lab)"),
        ("runtime.config.file", "import reconvene.runtime.node.main", "the config layer may not import"),
        ("runtime.net.udp", "from reconvene.runtime.site.engine import SiteEngine", "the net layer may not import"),
        ("runtime.clients.server", "from reconvene.runtime.site.engine import SiteEngine", "the clients layer may"),
        ("core.novelty", "", "place it in LAYERS"),
        ("ids", "from reconvene.core.novelty import x", "reconvene.core.novelty, which no layer names"),
    ],
)
def test_a_planted_import_is_caught(module: str, source: str, offence: str) -> None:
    known = dict.fromkeys([*modules(SOURCE), "reconvene.core.site", "reconvene.trace.events"], SOURCE)
    found = offences(f"reconvene.{module}", source, known)
    assert len(found) == 1
    assert offence in found[0]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "core.site",
            "from collections.abc import Iterator\nimport msgspec\nfrom reconvene.core.effects import Sent",
        ),
        ("core.order.engine", "from reconvene.wire.messages import Frame"),
        ("verify.evs", "import os\nfrom reconvene.trace.events import Row"),
        ("sim.network", "import random\nfrom reconvene.core.site import Site"),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    assert offences(f"reconvene.{module}", source, modules(SOURCE)) == []
