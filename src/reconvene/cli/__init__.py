"""The program `reconvene`. Each command has a file, `_catalogue` lists them, and this module finds and runs one.

Exit codes: 0, done, and what was checked holds; 1, it ran, and something checked does not hold; 2, bad usage or
bad input, with one line on stderr that says where and what was expected.
"""

import io
import os
import sys
from collections.abc import Sequence

from reconvene import __version__
from reconvene.cli._catalogue import COMMANDS, FAMILIES, FIRSTS, Command, closest, family
from reconvene.errors import Malformed, ReconveneError

__all__ = ["main"]

_BAD_INPUT = 2
_HELP = ("-h", "--help", "help")


def main(arguments: list[str] | None = None) -> None:
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # replace characters that the terminal lacks
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except ReconveneError as error:
        return _refuse(str(error), arguments)
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does. Without this the interpreter would print an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except Exception as error:
        if os.environ.get("RECONVENE_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _complain(f"internal error: {what}; set RECONVENE_TRACEBACK=1 for a traceback")
        return 1


def _dispatch(arguments: list[str]) -> int:
    """Runs the command that the first words name. Raises Malformed if there is none of that name."""
    match arguments:
        case []:
            raise Malformed(_expected("", FIRSTS))
        case [word, *_] if word in _HELP:
            from reconvene.cli._help import overview

            print(overview())
            return 0
        case ["--version", *_]:
            from reconvene.build import current_build

            print(f"reconvene {__version__} ({current_build()})")
            return 0
        case [first, *rest] if first in FAMILIES:
            return _in_family(first, rest)
        case [name, *rest] if name in COMMANDS:
            return _call(COMMANDS[name], rest)
    raise Malformed(_unknown(arguments[0], "", (*FIRSTS, "--version", *_HELP)))


def _in_family(first: str, rest: list[str]) -> int:
    known = family(first)
    match rest:
        case []:
            raise Malformed(f"{first}: {_expected(first, tuple(known))}")
        case [word, *_] if word in _HELP:
            from reconvene.cli._help import overview_of

            print(overview_of(first))
            return 0
        case [second, *others] if second in known:
            return _call(known[second], others)
    raise Malformed(_unknown(rest[0], first, (*known, *_HELP)))


def _call(command: Command, arguments: list[str]) -> int:
    # Imported here, because the list of commands, the version and a mistyped name need no parser.
    from reconvene.cli._calling import call

    return call(command, arguments)


def _expected(first: str, known: Sequence[str]) -> str:
    asked = f"reconvene {first} --help" if first else "reconvene --help"
    return f"expected a command: {', '.join(known)}; `{asked}` describes them"


def _unknown(typed: str, first: str, known: Sequence[str]) -> str:
    where = f"{first} {typed}" if first else typed
    kind = "option" if typed.startswith("-") else "command"
    meant = closest(typed, [word for word in known if word.startswith("-") == typed.startswith("-")])
    if meant is not None:
        return f"{where}: no such {kind}; did you mean `{' '.join(filter(None, ('reconvene', first, meant)))}`?"
    return f"{where}: no such {kind}; {_expected(first, [word for word in known if not word.startswith('-')])}"


def _refuse(message: str, arguments: list[str]) -> int:
    if "--json" in arguments:
        from reconvene.cli._output import print_json

        print_json({"error": " ".join(message.split())})
    _complain(message)
    return _BAD_INPUT


def _complain(message: str) -> None:
    print(f"reconvene: {' '.join(message.split())}", file=sys.stderr)
