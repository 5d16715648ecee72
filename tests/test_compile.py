"""Which modules are compiled, and what is said where none can be. tests/compiled tests what was compiled."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
SCRIPT = ROOT / "scripts" / "compile.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = spec_from_file_location("compile_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imported_names(tree: ast.Module) -> dict[str, str]:
    """The file of the module that each imported name comes from, by that name."""
    return {
        alias.asname or alias.name: f"{node.module.replace('.', '/')}.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }


def heirs(file: Path, compiled: set[str]) -> Iterator[str]:
    """The classes of a file that inherit from a class of a compiled module."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if names.get(ast.unparse(base).partition("[")[0]) in compiled:
                    yield node.name


def test_every_hot_path_names_modules(script: ModuleType) -> None:
    for pattern in script.HOT:
        assert list((SOURCE / "reconvene").glob(pattern)), pattern


def test_no_interpreted_class_inherits_from_a_compiled_one(script: ModuleType) -> None:
    """Python refuses such a class when its module is imported."""
    compiled = {path.as_posix() for path in script.compiled_modules(SOURCE)}
    assert "reconvene/core/site.py" in compiled
    others = (file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).as_posix() not in compiled)
    assert [(str(file), name) for file in others for name in heirs(file, compiled)] == []


def test_such_a_class_is_found(tmp_path: Path) -> None:
    file = tmp_path / "heir.py"
    file.write_text("from reconvene.core.site import Site\n\n\nclass Heir(Site):\n    pass\n")
    assert list(heirs(file, {"reconvene/core/site.py"})) == ["Heir"]


@pytest.mark.parametrize(
    "text",
    ["class A(Struct, frozen=True):\n    pass\n", "@runtime_checkable\nclass A(Protocol):\n    pass\n"],
)
def test_modules_that_stay_interpreted(script: ModuleType, text: str, tmp_path: Path) -> None:
    (tmp_path / "reconvene" / "stack").mkdir(parents=True)
    (tmp_path / "reconvene" / "stack" / "some.py").write_text(text)
    (tmp_path / "reconvene" / "stack" / "other.py").write_text("class B:\n    pass\n")
    assert script.compiled_modules(tmp_path) == [Path("reconvene/stack/other.py")]


@pytest.mark.parametrize("command", ["possible", "in-place"])
def test_without_a_compiler(command: str, tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if name != "CC"}
    finished = subprocess.run(
        [sys.executable, SCRIPT, command],
        env=kept | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("compile: no C compiler (")
    assert len(finished.stderr.splitlines()) == 1


def test_an_unknown_command() -> None:
    finished = subprocess.run([sys.executable, SCRIPT, "fast"], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (2, "compile: expected in-place, remove or possible\n")
