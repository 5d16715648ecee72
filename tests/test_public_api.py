"""Every module says what it offers, and offers what it says."""

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


def has_code(path: Path) -> bool:
    """Something besides a docstring: a package's empty __init__ offers nothing."""
    return any(not isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)


def modules() -> list[str]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.name != "__main__.py" and has_code(path):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.parametrize("name", modules())
def test_all_names_what_is_there(name: str) -> None:
    module = importlib.import_module(name)
    offered = getattr(module, "__all__", None)
    assert offered is not None, f"{name} has no __all__"
    assert len(set(offered)) == len(offered), f"{name}.__all__ names something twice"
    missing = [entry for entry in offered if not hasattr(module, entry)]
    assert not missing, f"{name}.__all__ names what is not there: {missing}"
    private = [entry for entry in offered if entry.startswith("_") and entry != "__version__"]
    assert not private, f"{name}.__all__ offers private names: {private}"
