"""Every module says what it offers, and offers what it says."""

import ast
import importlib
import inspect
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cached_property
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
        if path.name != "__main__.py" and (path.name != "__init__.py" or has_code(path)):
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
        *("ALL", "Action", "Batch", "Blocked", "Call", "Cast", "ClientKey", "Color", "ColorChange", "ColorChanges"),
        *("Committed", "Config", "Cursor", "CursorInfo", "CursorLost", "Entry"),
        *(
            "EntryBatch",
            "Event",
            "Failure",
            "Follow",
            "Group",
            "GroupLeft",
            "GroupView",
            "Health",
            "InvalidArgument",
            "Isis",
            "IsisEvent",
            "IsisGroup",
            "IsisStatus",
            "Killed",
            "Limits",
            "Log",
            "LogStatus",
            "Lost",
        ),
        *("Malformed", "Message", "OutcomeTimedOut", "OutcomeUnknown", "PlaceForgotten", "Positions", "Process"),
        *("ProcessFailed", "Reachable"),
        *("Receipt", "Receipts", "ReconveneError", "Rejected", "Rejoined", "Reply", "Runner", "Service", "Session"),
        *("Site",),
        *("SiteStatus", "SnapshotInfo", "Staging", "StateMachine", "StateProvider", "TimedOut", "Truncated"),
        *("UNORDERED", "Unavailable", "Unreachable", "VectorProvider", "View"),
        *(
            "ViewId",
            "WatchRefused",
            "WideView",
            "__version__",
            "blocking",
            "configure_logging",
            "connect",
            "load_config",
            "open",
        ),
    ]
    assert sorted(reconvene.blocking.__all__) == [
        *("Call", "ColorChanges", "Cursor", "Follow", "Group", "Isis", "IsisGroup", "Log", "Receipt", "Receipts"),
        *("Runner", "Session", "Site", "Staging", "connect", "open"),
    ]
    assert dir(reconvene) == sorted(reconvene.__all__)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        reconvene.colour  # noqa: B018
    assert (SOURCE / "reconvene/py.typed").exists()


TWINS = (
    *(
        "Call",
        "Isis",
        "IsisGroup",
        "ColorChanges",
        "Follow",
        "Group",
        "Log",
        "Receipt",
        "Receipts",
        "Runner",
        "Session",
        "Site",
        "Staging",
    ),
)
INTERNAL = {"after_read", "begin", "wait_and_drain"}
"""Of Group and Isis: for their site, for their twin, and for programs that share an event loop with them."""


@pytest.mark.parametrize("name", TWINS)
def test_the_twin_without_asyncio_has_the_same_names_and_arguments(name: str) -> None:
    import reconvene

    def public(of: type) -> dict[str, object]:
        return {name: getattr(of, name) for name in dir(of) if not name.startswith("_") and name not in INTERNAL}

    def arguments(of: object) -> list[tuple[str, object]]:
        if isinstance(of, property | cached_property):
            return []
        return [(one.name, one.default) for one in inspect.signature(of).parameters.values()]  # type: ignore[arg-type]

    asynchronous, twin = public(getattr(reconvene, name)), public(getattr(reconvene.blocking, name))
    assert set(asynchronous) == set(twin)
    for method, one in asynchronous.items():
        assert arguments(one) == arguments(twin[method]), method
    of, other = getattr(reconvene, name), getattr(reconvene.blocking, name)
    assert hasattr(of, "__aenter__") == hasattr(other, "__enter__")
    assert hasattr(of, "__aiter__") == hasattr(other, "__iter__")


def test_all_that_is_opened_is_a_context_manager() -> None:
    """`open` and `connect` are, too: they give a site."""
    import reconvene

    for name in ("Group", "Follow", "ColorChanges", "IsisGroup", "Staging", "Runner"):
        assert issubclass(getattr(reconvene, name), AbstractAsyncContextManager), name
        assert issubclass(getattr(reconvene.blocking, name), AbstractContextManager), name


def test_the_twin_without_asyncio_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, SOURCE.parent / "scripts/blocking_api.py", "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_every_timeout_is_a_timeout() -> None:
    import reconvene

    for error, kind in (
        (reconvene.TimedOut, reconvene.Unavailable),
        (reconvene.OutcomeTimedOut, reconvene.OutcomeUnknown),
    ):
        assert issubclass(error, TimeoutError)
        assert issubclass(error, kind)


def test_the_package_itself_imports_nothing() -> None:
    """The simulator and the judge are in it: they must not bring a site's runtime with them."""
    code = "import reconvene, sys; print([name for name in sys.modules if name.startswith('reconvene.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
