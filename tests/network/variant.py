"""`reconvene` as if it had another version; a test runs this file instead of the program.

    python variant.py major node --config …    its datagrams have the next major version
    python variant.py minor node --config …    the next minor version, with one more field in each struct

A minor version adds fields at the end. So this file makes the structs from the same source, with one more field in
each: what this program sends always has the field, and what it receives from others never has.
"""

import ast
import importlib.util
import sys
from types import ModuleType

MESSAGES = (
    *("reconvene.wire.messages", "reconvene.wire.client_log", "reconvene.wire.clients"),
    "reconvene.core.groups.payloads",
)
"""The modules with the messages between sites, and between sites and clients."""
FIELD = "news"
"""The field that the next minor version adds to each struct."""


def speak_next_major() -> None:
    from reconvene.wire import seal

    seal.MAJOR += 1


def speak_next_minor() -> None:
    for name in MESSAGES:
        _with_field(name)
    from reconvene.wire import clients, seal

    seal.MINOR += 1
    clients.MINOR += 1


def _with_field(name: str) -> ModuleType:
    """Imports the module with one more field in each of its structs."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read(), spec.origin)
    (field,) = ast.parse(f"{FIELD}: str = 'of a later version'").body
    structs = 0
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id == "Struct" for base in node.bases
        ):
            node.body.append(field)
            structs += 1
    assert structs, name
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(tree, spec.origin, "exec"), module.__dict__)
    return module


if __name__ == "__main__":
    {"major": speak_next_major, "minor": speak_next_minor}[sys.argv.pop(1)]()
    from reconvene.cli import main

    main(sys.argv[1:])
