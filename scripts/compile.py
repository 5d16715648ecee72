"""Compiles the hot modules to machine code with mypyc. The source is the same: a module that is not compiled runs
as Python, and so does every module where there is no C compiler.

    python scripts/compile.py in-place    into src, for this interpreter (make compiled)
    python scripts/compile.py remove      removes that again (make pure)
    python scripts/compile.py possible    says what is missing for that, if anything is

It is also the hook by which `pip install .` and `pip wheel .` compile. Without a C compiler, or if compiling fails,
they build pure Python and say so in one line. RECONVENE_BUILD=pure never compiles; RECONVENE_BUILD=compiled fails
where it cannot.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["CompileHook", "compile_copy", "compiled_modules", "main"]

SOURCE = Path(__file__).resolve().parent.parent / "src"
HOT = (
    "core/**/*.py",
    "stack/*.py",
    "corel/*.py",
    "corel/paper/*.py",
    "corel/following/follower.py",
    "corel/keeping/writes.py",
    "sim/changing.py",
    "sim/evs_site.py",
    "sim/isis_site.py",
    "sim/log_stack.py",
    "sim/loop.py",
    "sim/network.py",
    "sim/node.py",
    "sim/wide_isis.py",
    "sim/wide_site.py",
)
"""Where a profile of the simulator spends its time, apart from libraries in C. What inherits from a
compiled class is compiled too, since an interpreted class cannot inherit from one."""
INTERPRETED = re.compile(r"^class \w+\(.*\bStruct\b|^@runtime_checkable", re.MULTILINE)
"""Modules with these stay interpreted: msgspec makes classes from annotations, and runtime_checkable looks into
Protocol classes, neither of which compiled classes have."""
BUILD_VARIABLE = "RECONVENE_BUILD"
NEEDS = ["mypy[mypyc]>=1.15", "msgspec>=0.20"]
"""To compile: the compiler and what it runs on, and the package whose types the modules use."""
HASHES = "compiled.sha256"
"""What `reconvene.build` reads."""
OPTIMIZE = "1"


def compiled_modules(source: Path) -> list[Path]:
    """The modules that are compiled; paths start at `source`, the directory that contains the package."""
    package = source / "reconvene"
    found = {path for pattern in HOT for path in package.glob(pattern)}
    return sorted(
        path.relative_to(source) for path in found if (text := path.read_text()) and not INTERPRETED.search(text)
    )


def why_not() -> str | None:
    """Why nothing can be compiled here, in one line; None if it can."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not command or shutil.which(command[0]) is None:
        return f"no C compiler ({command[0] if command else 'CC is empty'}) was found; install gcc"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "the headers of Python (Python.h) were not found; install python3-dev"
    return None


def wanted() -> str | None:
    """What RECONVENE_BUILD asks for; None: compiled where that can be."""
    value = os.environ.get(BUILD_VARIABLE) or None
    if value not in (None, "pure", "compiled"):
        raise SystemExit(f"{BUILD_VARIABLE}={value}: expected pure, compiled or nothing")
    return value


def compile_copy(target: Path) -> list[Path]:
    """Copies the package's source to `target`, compiles it there, and returns the files that this made, from
    `target`. Raises CompileFailed with one line."""
    shutil.copytree(SOURCE / "reconvene", target / "reconvene", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    modules = compiled_modules(target)
    # In a process of its own, because mypyc ends its process where it finds a mistake.
    finished = subprocess.run(
        [sys.executable, Path(__file__).resolve(), "here", *modules],
        cwd=target, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if finished.returncode != 0:
        lines = [line for line in finished.stdout.splitlines() if "error" in line.lower()]
        raise CompileFailed((lines or finished.stdout.splitlines() or ["the compiler printed nothing"])[-1].strip())
    hashes = [f"{hashlib.sha256((target / path).read_bytes()).hexdigest()}  {path.as_posix()[len('reconvene/'):]}\n"
              for path in modules]  # fmt: skip
    (target / "reconvene" / HASHES).write_text("".join(hashes))
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    # The library that all of them share stands beside the package.
    made = [*target.glob(f"*{suffix}"), *sorted(target.glob(f"reconvene/**/*{suffix}"))]
    return [path.relative_to(target) for path in (*made, target / "reconvene" / HASHES)]


class CompileFailed(Exception):
    pass


def _compile_here(modules: list[str]) -> None:
    """The modules are below the current directory, and what is made from them stands beside them."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    # No configuration: that of the repository is for its tests too.
    options = ["--config-file=", "--cache-dir=/dev/null"]
    extensions = mypycify([*options, *modules], opt_level=OPTIMIZE, debug_level="0", group_name="reconvene")
    command = build_ext(Distribution({"name": "reconvene", "ext_modules": extensions}))
    command.inplace = True
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()


class CompileHook(BuildHookInterface[Any]):
    """Adds machine code to a wheel. An editable installation has none: `make compiled` is for that."""

    def dependencies(self) -> list[str]:
        return [] if self.target_name != "wheel" or wanted() == "pure" or why_not() is not None else NEEDS

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        asked = wanted()
        if self.target_name != "wheel" or version == "editable" or asked == "pure":
            return
        self._place = TemporaryDirectory()
        target = Path(self._place.name)
        try:
            if (lacking := why_not()) is not None:
                raise CompileFailed(lacking)
            made = compile_copy(target)
        except CompileFailed as error:
            if asked == "compiled":
                raise SystemExit(f"{BUILD_VARIABLE}=compiled: {error}") from None
            self.app.display_warning(f"reconvene: pure Python, which is slower: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(target / path): str(path) for path in made})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_place"):
            self._place.cleanup()


def remove() -> int:
    """Removes what `in-place` made, and returns how many files that were."""
    made = [path for pattern in ("*.so", f"reconvene/{HASHES}") for path in SOURCE.rglob(pattern)]
    for path in made:
        path.unlink()
    return len(made)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["here", *modules]:
            _compile_here(modules)
        case ["possible"]:
            if (lacking := why_not()) is not None:
                print(f"compile: {lacking}", file=sys.stderr)
                return 2
        case ["remove"]:
            print(f"compile: removed {remove()} files; src is pure Python")
        case ["in-place"]:
            if (code := main(["possible"])) != 0:
                return code
            with TemporaryDirectory() as place:
                try:
                    made = compile_copy(Path(place))
                except CompileFailed as error:
                    print(f"compile: {error}", file=sys.stderr)
                    return 1
                remove()
                for path in made:
                    shutil.copy2(Path(place, path), SOURCE / path)
            count = len(made) - 2  # but for the library that they share, and the hashes
            print(f"compile: {count} modules of src are machine code; after an edit: make compiled, or make pure")
        case _:
            print("compile: expected in-place, remove or possible", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
