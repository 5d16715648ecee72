"""Writes src/reconvene/client/blocking.py from the asynchronous classes. `--check`: is it up to date?

Each public method gets a twin with the same arguments and the same docstring that hands its work to the background
thread and waits. What can't be made this way is in the classes of `READERS`: it is inherited, and left out here.
"""

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "src" / "reconvene" / "client"
TARGET = CLIENT / "blocking.py"

TWINS = {
    "Receipt": "receipts",
    "Receipts": "receipts",
    "Session": "session",
    "Follow": "follow",
    "ColorChanges": "colors",
    "Staging": "staging",
    "Cursor": "cursor",
    "Runner": "runner",
    "Log": "log",
    "Group": "group",
    "Call": "isis_call",
    "IsisGroup": "isis",
    "Isis": "isis",
    "Site": "site",
}
"""The classes, by the module that has the asynchronous one."""
FUNCTIONS = {"open": "local", "connect": "connecting"}
LATE = {"open"}
"""Of those: imported only when it is called, since it needs all of a site."""
READERS = {"Group": "GroupReader", "Follow": "FollowReader", "Isis": "IsisReader"}
INTERNAL = {("Group", "begin"), ("Group", "wait_and_drain"), ("Isis", "after_read"), ("Isis", "wait_and_drain")}
NOTES = {
    "Group": "Several threads may read: each event goes to one of them.",
    "Isis": "Several threads may read: each event goes to one of them. Where state is given and taken, one thread "
    "reads: `give` and `take` are called in the background thread, `give` while that one waits for its next event.",
    "Runner": "The state machine is called in the background thread: read its state between calls of `applied` and "
    "`caught_up`, or guard it by a lock of its own.",
}

HEAD = '''\
"""The same without asyncio: for scripts, threads, and executors of a data pipeline.

Made by scripts/blocking_api.py from the asynchronous classes: change those, then run it.
"""

'''


class Module:
    """A module of the client, parsed, and where its names come from."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = ast.parse((CLIENT / f"{name}.py").read_text())
        self.origin: dict[str, str] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                self.origin |= {alias.asname or alias.name: node.module for alias in node.names}
            elif isinstance(node, ast.Assign):
                self.origin |= {
                    target.id: f"reconvene.client.{name}" for target in node.targets if isinstance(target, ast.Name)
                }
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self.origin[node.target.id] = f"reconvene.client.{name}"
        self.plain = {alias.name for node in self.tree.body if isinstance(node, ast.Import) for alias in node.names}

    def find(self, name: str) -> ast.AST:
        return next(node for node in self.tree.body if getattr(node, "name", None) == name)


class Writer:
    def __init__(self) -> None:
        self.imports: set[tuple[str, str]] = set()
        self.plain: set[str] = set()
        self.lines: list[str] = []
        self.modules = {name: Module(name) for name in {*TWINS.values(), *FUNCTIONS.values()}}

    def need(self, module: Module, *nodes: ast.AST | None) -> None:
        """What names in a signature stand for."""
        for node in nodes:
            for inner in ast.walk(node) if node is not None else ():
                if isinstance(inner, ast.Name) and inner.id not in TWINS:
                    if inner.id in module.plain:
                        self.plain.add(inner.id)
                    elif inner.id in module.origin:
                        self.imports.add((module.origin[inner.id], inner.id))

    def module(self) -> str:
        for name, where in FUNCTIONS.items():
            self.function(name, self.modules[where])
        for name, where in TWINS.items():
            self.twin(name, self.modules[where])
        self.imports |= {
            ("contextlib", "contextmanager"),
            ("collections.abc", "Iterator"),
            *(("reconvene.client.blocking_readers", reader) for reader in READERS.values()),
        }
        text = "\n".join(self.lines)
        if "@cached_property" in text:
            self.imports.add(("functools", "cached_property"))
        self.imports |= {
            ("reconvene.client.loop_thread", name)
            for name in ("LoopThread", "Opened", "Twin", "background", "walked")
            if f"{name}[" in text or f"{name}(" in text
        }
        late = {FUNCTIONS[name] for name in LATE}
        aliases = [f"from reconvene.client import {where} as async_{where}" for where in {*self.modules} - late]
        names = [f"from {module} import {name}" for module, name in sorted(self.imports)]
        plain = [f"import {name}" for name in sorted(self.plain)]
        public = sorted([*TWINS, *FUNCTIONS])
        imports = "\n".join([*plain, *aliases, *names])
        return _formatted(f"{HEAD}{imports}\n\n__all__ = {public!r}\n\n{text}\n")

    def function(self, name: str, module: Module) -> None:
        """An asynchronous context manager that yields a site."""
        node = module.find(name)
        assert isinstance(node, ast.AsyncFunctionDef)
        self.need(module, node.args)
        call = f"async_{module.name}.{name}({_passed(node.args)})"
        shadow = "  # noqa: A001" if name == "open" else ""
        self.lines += [
            "@contextmanager",
            f'def {name}({ast.unparse(node.args)}) -> Iterator["Site"]:{shadow}',
            _docstring(node),
            *([f"    from reconvene.client import {module.name} as async_{module.name}", ""] if name in LATE else []),
            f"    with background(lambda: {call}) as (thread, site):",
            "        yield Site(thread, site)",
            "",
        ]

    def twin(self, name: str, module: Module) -> None:
        node = module.find(name)
        assert isinstance(node, ast.ClassDef)
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        opened = any(one.name == "__aenter__" for one in methods)
        inner = f"async_{module.name}.{name}"
        reader = READERS.get(name)
        base = reader or f"{'Opened' if opened else 'Twin'}[{inner}]"
        inherited = _methods(reader)
        self.lines += [f"class {name}({base}):", _docstring(node, note=NOTES.get(name, "")), ""]
        for one in methods:
            if one.name in inherited or (name, one.name) in INTERNAL:
                continue
            if one.name in ("__anext__", "__len__") or not one.name.startswith("_"):
                self.method(one, module)

    def method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> None:
        assert node.returns is not None, node.name
        arguments, returned = ast.unparse(node.args), ast.unparse(node.returns).strip("'\"")
        if node.name == "__anext__":
            self.need(module, node.returns)
            self.lines += [
                f"    def __iter__(self) -> Iterator[{returned}]:",
                "        return self._thread.iterate(self._inner)",
                "",
            ]
            return
        is_property = any(ast.unparse(one) == "property" for one in node.decorator_list)
        target = f"self._inner.{node.name}"
        found = target if is_property else f"{target}({_passed(node.args)})"
        if node.name == "__len__":
            found = "len(self._inner)"
        if returned.startswith("AsyncIterator["):
            returned = returned.removeprefix("Async")
            found = f"self._thread.iterate({found})"
        elif isinstance(node, ast.AsyncFunctionDef):
            found = f"self._thread.run({found})"
        self.need(module, node.args, node.returns)
        if returned in TWINS:
            found = f"{returned}(self._thread, {found})"
        body = found if returned == "None" else f"return {found}"
        self.lines += [
            *([f"    @{'cached_property' if returned in TWINS else 'property'}"] if is_property else []),
            f"    def {node.name}({arguments}) -> {_quoted(returned)}:",
            *([_docstring(node, 8)] if ast.get_docstring(node) else []),
            f"        {body}",
            "",
        ]


def _quoted(returned: str) -> str:
    return f'"{returned}"' if returned in TWINS else returned


def _methods(reader: str | None) -> set[str]:
    if reader is None:
        return set()
    tree = ast.parse((CLIENT / "blocking_readers.py").read_text())
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == reader)
    names = {one.name for one in found.body if isinstance(one, ast.FunctionDef)}
    return names | ({"__anext__"} if "__iter__" in names else set())


def _passed(arguments: ast.arguments) -> str:
    """The same arguments, for the asynchronous method. Iterables are gone through in the caller's thread."""

    def value(argument: ast.arg) -> str:
        lazy = argument.annotation is not None and "Iterable[" in ast.unparse(argument.annotation)
        return f"walked({argument.arg})" if lazy else argument.arg

    plain = [value(argument) for argument in arguments.args if argument.arg != "self"]
    named = [f"{one.arg}={value(one)}" for one in arguments.kwonlyargs]
    return ", ".join([*plain, *named, *([] if arguments.kwarg is None else [f"**{arguments.kwarg.arg}"])])


def _docstring(node: ast.AsyncFunctionDef | ast.FunctionDef | ast.ClassDef, indent: int = 4, note: str = "") -> str:
    text = (ast.get_docstring(node) or "").replace("async with await ", "with ").replace("async ", "")
    text = text.replace("in this program's event loop", "in the background thread")
    text = text.replace("await ", "").replace("from one task", "from one thread").replace("of tasks", "of threads")
    if note:
        text = f"{text}\n\n{fill(note, 110)}"
    space = " " * indent
    lines = [f"{space}{line}" if line else "" for line in text.splitlines()]
    end = f"\n{space}" if len(lines) > 1 else ""
    return f'{space}"""{chr(10).join(lines).lstrip()}{end}"""'


def _formatted(text: str) -> str:
    for command in (["check", "--quiet", "--select", "I,F401", "--fix"], ["format", "--quiet"]):
        arguments = [str(Path(sys.executable).with_name("ruff")), *command, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def main() -> int:
    made = Writer().module()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(made)
        return 0
    if TARGET.read_text() != made:
        print(f"{TARGET.relative_to(ROOT)} is out of date: run python scripts/blocking_api.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
