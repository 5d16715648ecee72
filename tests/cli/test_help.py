"""The list of commands, the help of each, and the error for a mistyped word."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from reconvene.cli import _calling, main
from reconvene.cli._calling import function_of
from reconvene.cli._catalogue import CATALOGUE, COMMANDS, FAMILIES, Command
from reconvene.cli._signature import Expects, signature_of

EACH = pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name.replace(" ", "-"))


def call(*arguments: str) -> object:
    with pytest.raises(SystemExit) as exit_:
        main(list(arguments))
    return exit_.value.code


def test_the_list_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    text = capsys.readouterr().out
    for section in CATALOGUE:
        assert f"\n{section.title}:\n" in text
        for command in section.commands:
            assert f"\n  {command.name} " in text
            assert f" {command.summary}\n" in text
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize("word", ["-h", "help"])
def test_other_ways_to_ask_for_help(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(word) == 0
    assert call("log", word) == 0
    assert capsys.readouterr().out.count("Usage: ") == 2


@pytest.mark.parametrize("first", FAMILIES)
def test_a_family_lists_its_commands(first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(first, "--help") == 0
    text = capsys.readouterr().out
    for command in COMMANDS.values():
        assert (f"$ {command.example}\n" in text) == command.name.startswith(f"{first} ")


@EACH
def test_each_command_has_help_with_its_example(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*command.name.split(), "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"Usage: reconvene {command.name} ")
    assert f"Example: {command.example}" in text


@EACH
def test_each_example_can_be_typed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real parser accepts it; what the command does with it is tested elsewhere."""
    given: dict[str, Any] = {}

    def hollow(of: Command) -> Callable[..., Any]:
        @wraps(function_of(of))
        def note(**values: Any) -> None:
            given.update(values)

        return note

    monkeypatch.setattr(_calling, "function_of", hollow)
    words = shlex.split(command.example.partition(" > ")[0])
    assert words[: len(command.name.split()) + 1] == ["reconvene", *command.name.split()]
    assert call(*words[1:]) == 0
    assert given


@EACH
def test_what_is_read_from_a_command_is_what_its_help_shows(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    call(*command.name.split(), "--help")
    text = capsys.readouterr().out
    for option in signature_of(function_of(command)).options:
        assert all(flag in text for flag in option.flags)
        assert option.help
        assert option.value.expects is Expects.NOTHING or not option.flags[0].startswith("--no-")


@pytest.mark.parametrize("argument", ["--help", "--version", "sta"])
def test_a_list_costs_nothing(argument: str) -> None:
    """It imports no parser, no event loop, and nothing that only a command needs."""
    program = (
        "import sys\n"
        "from reconvene.cli import main\n"
        "try:\n"
        f"    main([{argument!r}])\n"
        "finally:\n"
        "    print(*sorted({'typer', 'rich', 'asyncio', 'msgspec', 'lmdb'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.splitlines()[-1] == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["statsu"], "statsu: no such command; did you mean `reconvene status`?"),
        (["log", "apend"], "log apend: no such command; did you mean `reconvene log append`?"),
        (["log"], "log: expected a command: append, read,"),
        (["trace"], "trace: expected a command: make, pack, unpack;"),
        (["xyzzy"], "xyzzy: no such command; expected a command: demo, doctor,"),
        (["--versoin"], "--versoin: no such option; did you mean `reconvene --version`?"),
        (["sim", "x", "--tarce", "y"], "sim: no such option --tarce; did you mean --trace?"),
        (["log", "read", "--qqqqq"], "log read: no such option --qqqqq; `reconvene log read --help` lists"),
        (["sim"], "sim: missing argument 'SCENARIO.toml'"),
        (["send", "g", "--size", "4 stone", "--dir", "x"], "--size 4 stone: expected a size such as 4MiB"),
        (["send", "g", "--size", "0", "--dir", "x"], "--size 0: expected at least 1B"),
        (["log", "append", "m", "--timeout", "5", "--dir", "x"], "--timeout 5: expected a duration such as 500ms"),
        (["log", "append", "m", "--timeout", "5us", "--dir", "x"], "--timeout 5us: expected at least 1ms"),
        (["pipeline", "tally", "--node", "h:1", "--window", "1 day"], "--window 1 day: expected a duration such as"),
        (
            ["pipeline", "export", "--node", "h:1", "--to", "x", "--every", "5us"],
            "--every 5us: expected at least 1ms",
        ),
        (["completion", "tcsh"], "completion tcsh: expected bash, zsh, fish"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
