"""The program `reconvene`: one file a command, and here what they have in common.

Exit codes: 0, done, and what was checked holds; 1, it ran, and something checked does not hold; 2, bad usage or
bad input, with one line on stderr that says where and what was expected.
"""

import io
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import typer

from reconvene import __version__
from reconvene.cli._output import BAD_INPUT, print_json
from reconvene.errors import ReconveneError

__all__ = ["build", "main"]

COMMANDS = (
    ("demo", "reconvene.cli.demo", "demo_command"),
    ("sim", "reconvene.cli.sim", "sim_command"),
    ("verify", "reconvene.cli.verify", "verify_command"),
    ("trace", "reconvene.cli.trace", "trace_app"),
    ("campaign", "reconvene.cli.campaign", "campaign_command"),
    ("analyze", "reconvene.cli.analyze", "analyze_command"),
    ("pipeline", "reconvene.cli.pipeline", "pipeline_app"),
    ("bench", "reconvene.cli.bench", "bench_command"),
    ("node", "reconvene.cli.node", "node_command"),
    ("keygen", "reconvene.cli.keygen", "keygen_command"),
    ("up", "reconvene.cli.up", "up_command"),
    ("down", "reconvene.cli.down", "down_command"),
    ("status", "reconvene.cli.status", "status_command"),
    ("watch", "reconvene.cli.watch", "watch_command"),
    ("partition", "reconvene.cli.partition", "partition_command"),
    ("heal", "reconvene.cli.heal", "heal_command"),
    ("crash", "reconvene.cli.crash", "crash_command"),
    ("restart", "reconvene.cli.restart", "restart_command"),
    ("pause", "reconvene.cli.pause", "pause_command"),
    ("resume", "reconvene.cli.resume", "resume_command"),
    ("send", "reconvene.cli.send", "send_command"),
    ("listen", "reconvene.cli.listen", "listen_command"),
    ("log", "reconvene.cli.log", "log_app"),
)
"""Name, module, function, or an app with commands of its own. Not every installation has every module."""

UsageError = typer.BadParameter.__mro__[1]
"""The parser's own error, which typer does not name."""


def main(arguments: list[str] | None = None) -> None:
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def build(only: str | None = None) -> typer.Typer:
    """With one command where it is known which: a site starts faster without what the others need."""
    app = typer.Typer(
        name="reconvene",
        help="Group communication for services whose network breaks.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_top)
    known = any(name == only for name, _, _ in COMMANDS)
    for name, module, function in COMMANDS:
        if (name == only or not known) and find_spec(module) is not None:
            found = getattr(import_module(module), function)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name)
            else:
                app.command(name)(found)
    return app


def _top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        print(f"reconvene {__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        _complain(_expected())
        raise typer.Exit(BAD_INPUT)


def _expected() -> str:
    names = ", ".join(name for name, module, _ in COMMANDS if find_spec(module) is not None)
    return f"expected a command: {names}; --help says what they do"


def _run(arguments: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still gets the rest
    if arguments and not arguments[0].startswith("-") and all(arguments[0] != name for name, _, _ in COMMANDS):
        return _refuse(f"{arguments[0]}: {_expected()}", arguments)
    try:
        code: Any = build(arguments[0] if arguments else None)(
            arguments, prog_name="reconvene", standalone_mode=False
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ReconveneError as error:
        return _refuse(str(error), arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted")
        return 130
    except Exception as error:
        if isinstance(error, UsageError):
            return _refuse(str(getattr(error, "format_message", error.__str__)()), arguments)
        if os.environ.get("RECONVENE_TRACEBACK"):
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        _complain(f"a fault in reconvene itself: {what}; RECONVENE_TRACEBACK=1 shows where")
        return 1


def _refuse(message: str, arguments: list[str]) -> int:
    if "--json" in arguments:
        print_json({"error": " ".join(message.split())})
    _complain(message)
    return BAD_INPUT


def _complain(message: str) -> None:
    print(f"reconvene: {' '.join(message.split())}", file=sys.stderr)
