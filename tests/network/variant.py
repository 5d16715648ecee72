"""`reconvene` as a program of another version would be; a test runs this file in its place.

    python variant.py major node --config …    its datagrams say that they are of the next major version
    python variant.py minor node --config …    … of the next minor version, and each struct has one more field

A minor version adds fields at the end. So the structs are made here from the same source, with one more in each:
what this program sends always has it, and what others send it never has.
"""

import ast
import importlib.util
import sys
from types import ModuleType

MESSAGES = (
    *("reconvene.wire.messages", "reconvene.wire.client_log", "reconvene.wire.clients"),
    "reconvene.core.groups.payloads",
)
"""Whatever sites, and sites and clients, say to each other."""
FIELD = "news"
"""Of the structs, in the next minor version."""


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
    """The module, imported as it is, but for a field more in each of its structs."""
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
