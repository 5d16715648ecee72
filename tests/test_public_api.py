"""Every module says what it offers, and offers what it says."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


def has_code(path: Path) -> bool:
    """Something besides a docstring: a package's empty __init__ offers nothing."""
    return any(not isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)


NEEDS = {"reconvene.lab.bench.peers.pysyncobj_server": "pysyncobj"}
"""Modules that are programs of a peer, by what they need of it."""


def modules() -> list[str]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__main__.py" and has_code(path):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", modules())
def test_all_names_what_is_there(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    module = importlib.import_module(name)
    offered = getattr(module, "__all__", None)
    assert offered is not None, f"{name} has no __all__"
    assert len(set(offered)) == len(offered), f"{name}.__all__ names something twice"
    missing = [entry for entry in offered if not hasattr(module, entry)]
    assert not missing, f"{name}.__all__ names what is not there: {missing}"
    private = [entry for entry in offered if entry.startswith("_") and entry != "__version__"]
    assert not private, f"{name}.__all__ offers private names: {private}"


def test_what_a_program_imports() -> None:
    """Adding a name is a promise; taking one away breaks programs."""
    import reconvene

    assert sorted(reconvene.__all__) == [
        *(
            "Batch",
            "Blocked",
            "ClientKey",
            "Color",
            "ColorChange",
            "Committed",
            "Config",
            "Entry",
            "EntryBatch",
            "Event",
            "Failure",
        ),
        *(
            "Follow",
            "Group",
            "InvalidArgument",
            "Limits",
            "Log",
            "Malformed",
            "Message",
            "OutcomeUnknown",
            "Positions",
            "Process",
        ),
        *("Receipt", "Receipts", "ReconveneError", "Rejected", "Rejoined", "Runner", "Service", "Site"),
        *("SnapshotInfo", "Staging", "StateMachine", "Truncated", "Unavailable", "View", "ViewId", "__version__"),
        *("blocking", "connect", "load_config", "open"),
    ]
    assert sorted(reconvene.blocking.__all__) == [
        *("Follow", "Group", "Log", "Receipt", "Receipts", "Runner", "Site", "Staging", "connect", "open"),
    ]
    assert dir(reconvene) == sorted(reconvene.__all__)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        reconvene.colour  # noqa: B018
    assert (SOURCE / "reconvene/py.typed").exists()


def test_the_twin_without_asyncio_has_the_same_names() -> None:
    import reconvene

    def public(of: type) -> set[str]:
        return {name for name in vars(of) if not name.startswith("_")}

    assert public(reconvene.Site) == public(reconvene.blocking.Site)
    assert public(reconvene.Log) == public(reconvene.blocking.Log)
    assert public(reconvene.Receipt) == public(reconvene.blocking.Receipt)
    assert public(reconvene.Receipts) == public(reconvene.blocking.Receipts)
    assert public(reconvene.Staging) == public(reconvene.blocking.Staging)
    assert public(reconvene.Follow) == public(reconvene.blocking.Follow) - {"entries"}
    assert public(reconvene.Runner) | {"machine", "snapshot_trouble"} == public(reconvene.blocking.Runner)
    assert public(reconvene.Group) - {"begin", "wait_and_drain"} == public(reconvene.blocking.Group) - {"events"}


def test_the_package_itself_imports_nothing() -> None:
    """The simulator and the judge are in it: they must not bring a site's runtime with them."""
    code = "import reconvene, sys; print([name for name in sys.modules if name.startswith('reconvene.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
