"""What real shells complete with the scripts that `reconvene completion` prints."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reconvene.cli._catalogue import COMMANDS, FAMILIES

FIRSTS = {name.partition(" ")[0] for name in COMMANDS}
TYPED = [
    (["st"], {"status"}),
    (["log", ""], {name.partition(" ")[2] for name in COMMANDS if name.startswith("log ")}),
    (["log", "sn"], {"snapshot"}),
    (["log", "append", "--o"], {"--ordered"}),
    (["verify", "--engine", "s"], {"spark"}),
    (["verify", "--html", "rep"], {"report.html"}),
    (["keygen", "x", "--role", ""], {"read", "append", "admin"}),
    (["sim", "scenario"], {"scenario one.toml"}),
    (["completion", "z"], {"zsh"}),
    (["log", "follow", "--as", "b"], {"base64"}),
    (["pipeline", "export", "--from", "e"], {"earliest"}),
    (["status", "--dir", "to"], {"town"}),
]


def script(shell: str) -> str:
    program = [sys.executable, "-m", "reconvene", "completion", shell]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def need(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with something to complete."""
    directory = tmp_path_factory.mktemp("place")
    (directory / "scenario one.toml").touch()
    (directory / "report.html").touch()
    (directory / "town").mkdir()
    return directory


@pytest.fixture(scope="module")
def bash(place: Path) -> Callable[[list[str]], set[str]]:
    shell, file = need("bash"), place.parent / "completion.bash"
    file.write_text(script("bash"))

    def complete(words: list[str]) -> set[str]:
        program = (
            'source "$0"; shift 0; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _reconvene; '
            'printf "%s\\n" "${COMPREPLY[@]}"; complete -p reconvene'
        )
        done = subprocess.run(
            [shell, "--norc", "-c", program, file, "reconvene", *words],
            capture_output=True, text=True, check=True, cwd=place, timeout=30,
        )  # fmt: skip
        *found, registered = done.stdout.splitlines()
        assert registered == "complete -F _reconvene reconvene"
        assert done.stderr == ""
        return {word for word in found if word}

    return complete


@pytest.mark.parametrize(("words", "found"), TYPED)
def test_bash(words: list[str], found: set[str], bash: Callable[[list[str]], set[str]]) -> None:
    assert bash(words) == found


def test_bash_knows_every_command(bash: Callable[[list[str]], set[str]]) -> None:
    assert bash([""]) == FIRSTS
    assert bash(["-"]) == {"--help", "--version"}
    for first in FAMILIES:
        assert "--help" in bash([first, "--h"])
    assert bash(["nonsense", ""]) == set()


@pytest.mark.parametrize(("words", "found"), TYPED)
def test_fish(words: list[str], found: set[str], place: Path) -> None:
    shell = need("fish")
    file = place.parent / "reconvene.fish"
    if not file.exists():
        file.write_text(script("fish"))
    line = " ".join(["reconvene", *words])
    done = subprocess.run(
        [shell, "--no-config", "-c", f'source {file}; complete -C "{line}"'],
        capture_output=True, text=True, check=True, timeout=30,
        cwd=place, env={**os.environ, "HOME": str(place.parent)},
    )  # fmt: skip
    offered = {row.partition("\t")[0].removesuffix("/").replace("\\", "") for row in done.stdout.splitlines()}
    assert offered == found


@pytest.fixture(scope="module")
def zsh(place: Path) -> Iterator["Terminal"]:
    shell, functions = need("zsh"), place.parent / "functions"
    functions.mkdir()
    (functions / "_reconvene").write_text(script("zsh"))
    terminal = Terminal(shell, place)
    terminal.type(
        f"fpath=({functions} $fpath); autoload -U compinit; compinit -u -d {place.parent}/dump; echo RE''ADY\n"
    )
    terminal.read("READY\r\n")
    yield terminal
    terminal.close()


class Terminal:
    """An interactive shell, on a terminal of its own."""

    def __init__(self, shell: str, place: Path) -> None:
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            os.chdir(place)
            os.execve(shell, ["zsh", "-f", "-i"], {**os.environ, "PS1": "> ", "TERM": "dumb"})

    def type(self, text: str) -> None:
        os.write(self._file, text.encode())

    def read(self, until: str) -> str:
        told, end = "", time.monotonic() + 20
        while until not in told:
            assert time.monotonic() < end, f"{until!r} did not come: {told!r}"
            if select.select([self._file], [], [], 0.1)[0]:
                told += os.read(self._file, 65_536).decode(errors="replace")
        return told

    def close(self) -> None:
        os.write(self._file, b"\x15exit\n")
        os.close(self._file)
        os.waitpid(self._pid, 0)


@pytest.mark.parametrize(("words", "found"), [(words, found) for words, found in TYPED if len(found) == 1])
def test_zsh(words: list[str], found: set[str], zsh: Terminal) -> None:
    zsh.type(f"\x15reconvene {' '.join(words)}\t")
    zsh.read(" ".join([*words[:-1], *(word.replace(" ", "\\ ") for word in found)]))
