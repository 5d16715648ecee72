"""Everything that the pages of docs/ show works: every program, every command, and its output.

A page is run from top to bottom in its own directory, which replaces `/tmp/` in it. A program whose first line names
a file is saved under that name, so that commands can run it; every other program is run. tests/pages.py compares the
output.

A block that cannot be run here says so in a comment before its fence, with one of the reasons below. It is checked
nevertheless: its Python must compile, its imports must exist, and our commands must have the names and options used.
"""

import ast
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from msgspec import Struct
from tests.client.places import short_dir
from tests.pages import GOES_ON, ROOT, Block, Step, call, check, fences, going_on, run_program, session

from reconvene.cli._calling import function_of
from reconvene.cli._catalogue import COMMANDS
from reconvene.cli._signature import signature_of
from reconvene.local import LocalCluster
from reconvene.runtime.config.schema import keys
from reconvene.runtime.config.settings import Config

REASONS = (
    "a form to fill in",
    "installs packages",
    "needs machines of your own",
    "needs root",
    "shows what one machine said",
    "starts Spark",
    "takes minutes",
)
KINDS = ("console", "python", "sh", "text", "toml")
ELSEWHERE = {
    "api.md": ("tests/client/test_api_docs.py", {"python"}),
    "log-api.md": ("tests/client/test_api_docs.py", {"python"}),
    "isis-api.md": ("tests/client/test_api_docs.py", {"python"}),
    "isis-tools.md": ("tests/client/test_api_docs.py", {"python"}),
    "first-server.md": ("tests/test_first_server.py", {"console", "python"}),
}
"""Pages that need a special site or special ports: the test that runs them, and the kinds of blocks that it runs."""
BESIDE = ("CONTRIBUTING.md", "contrib/README.md", "examples/README.md")
PAGES = {path.name: fences(path.read_text()) for path in sorted((ROOT / "docs").glob("*.md"))} | {
    name: fences((ROOT / name).read_text()) for name in BESIDE
}
BLOCKS = [(name, block) for name, blocks in PAGES.items() for block in blocks]

of_block = pytest.mark.parametrize(("page", "block"), BLOCKS, ids=[f"{name}:{block.line}" for name, block in BLOCKS])

LONG = (
    "command-line.md",
    "domains.md",
    "first-steps.md",
    "local-clusters.md",
    "operations.md",
    "testing.md",
    "tutorial.md",
)
"""Pages that are run by `make test-all` only."""


def to_run(page: str) -> list[Block]:
    return [block for block in PAGES[page] if block.kind in ("console", "python", "sh") and not block.not_run]


def commands(block: Block) -> list[str]:
    """The lines of a block that a reader would type."""
    if block.kind == "console":
        return [step.command for step in session(block.text)]
    if block.kind != "sh":
        return []
    return re.sub(r"(\\|(?<=[)\]…A-Z]))\n +", " ", block.text).splitlines()


class Page:
    """A page while it is run."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str], terminals: ExitStack) -> None:
        self._directory = directory
        self._capsys = capsys
        self._terminals = terminals
        self._going_on: list[tuple[Step, Callable[[list[str]], None]]] = []

    def run(self, block: Block) -> None:
        ends, self._going_on = self._going_on, []
        text = block.text.replace("/tmp/", f"{self._directory}/")
        match block.kind:
            case "python":
                self._program(text)
            case "console":
                for step in session(text):
                    self._step(step)
            case "sh":
                for line in text.splitlines():
                    self._step(Step(line))
        for step, end in ends:  # a command that runs beside sees what the block after it does
            end(step.shown)

    def _program(self, text: str) -> None:
        named = re.match(r"# (\w+\.py)\n", text)
        if named is not None:
            (self._directory / named[1]).write_text(text)
        else:
            run_program(text, self._directory)

    def _step(self, step: Step) -> None:
        if GOES_ON.match(step.command):
            arguments = shlex.split(step.command)[1:]
            end = self._terminals.enter_context(going_on(arguments, self._directory, until="\n"))
            self._going_on.append((step, end))
        elif step.command.startswith("reconvene ") and ">" not in step.command:
            check(step, call(step.command, self._capsys))
        elif step.command.endswith(" &"):
            self._beside(step.command.removesuffix(" &"))
        else:
            check(step, self._shell(step.command))

    def _shell(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self._directory, env=self._environment(),
            check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def _beside(self, command: str) -> None:
        """Runs the command until it ends by itself or the page ends."""
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self._directory, env=self._environment())
        self._terminals.callback(process.wait)
        self._terminals.callback(process.kill)

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "HOME": str(self._directory)}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for a page, with the scenarios that come with the program. Clusters left there are stopped."""
    with short_dir() as directory:
        monkeypatch.chdir(directory)
        (directory / "scenarios").symlink_to(ROOT / "scenarios")
        try:
            yield directory
        finally:
            for cluster in directory.glob("*/cluster.toml"):
                LocalCluster(cluster.parent).kill()


def pages_to_run() -> list[ParameterSet]:
    long = pytest.mark.long("the page runs real clusters for ten seconds and more")
    names = [name for name in PAGES if to_run(name) and name not in ELSEWHERE]
    return [pytest.param(name, marks=[long] if name in LONG else []) for name in names]


@pytest.mark.parametrize("page", pages_to_run())
def test_a_page(page: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as terminals:
        running = Page(place, capsys, terminals)
        for block in to_run(page):
            running.run(block)


def test_what_is_run_elsewhere() -> None:
    for page, (test, kinds) in ELSEWHERE.items():
        assert f"docs/{page}" in (ROOT / test).read_text()
        assert {block.kind for block in to_run(page)} == kinds


@of_block
def test_a_block(page: str, block: Block) -> None:
    assert block.kind in KINDS
    assert block.not_run in ("", *REASONS)
    match block.kind:
        case "python":
            imports_are_there(block.text)
        case "toml":
            keys_are_known(tomllib.loads(block.text), Config)
    for command in commands(block):
        options_are_there(command)


def imports_are_there(code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name), f"{node.module} has no {name.name}"


def keys_are_known(table: Mapping[str, Any], struct: type[Struct]) -> None:
    known = {key.name: key for key in keys(struct)}
    for name, value in table.items():
        assert name in known, f"no key {name}"
        inner = known[name].struct
        if inner is not None:
            keys_are_known(value, inner)


def options_are_there(command: str) -> None:
    """Checks our own commands: the name, and every option that is written out."""
    words = re.sub(r"[\[\]()|]", " ", command.partition(" #")[0]).split()
    if words[:1] == ["make"]:
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]) is not None, command
    elif "reconvene" in words[:1]:
        name = " ".join(words[1:3]) if " ".join(words[1:3]) in COMMANDS else words[1]
        assert name in COMMANDS, command
        signature = signature_of(function_of(COMMANDS[name]))
        flags = {flag for option in signature.options for flag in option.flags}
        assert {word for word in words if word.startswith("-") and word != "-"} <= flags, command


@pytest.mark.parametrize(
    "wrong", ["reconvene upp --dir x", "reconvene up --knots 3", "reconvene log lose", "make everything"]
)
def test_a_wrong_command_is_caught(wrong: str) -> None:
    with pytest.raises(AssertionError):
        options_are_there(wrong)


@pytest.mark.parametrize(
    "wrong", ["from reconvene import closed", "from reconvene.log import Log", "import reconvened"]
)
def test_a_wrong_import_is_caught(wrong: str) -> None:
    with pytest.raises((AssertionError, ModuleNotFoundError)):
        imports_are_there(wrong)


def test_a_wrong_key_is_caught() -> None:
    with pytest.raises(AssertionError, match="no key prot"):
        keys_are_known({"http": {"prot": 7080}}, Config)


def test_every_page_is_in_the_list() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)[)#]", (ROOT / "docs/README.md").read_text())
    assert sorted(set(listed)) == sorted({*PAGES} - {"README.md", *BESIDE})
