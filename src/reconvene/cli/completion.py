"""reconvene completion: prints a script with which a shell completes commands, options, choices and paths.

The script holds everything, so the shell never starts the program to complete a word. Make it again after an upgrade.
"""

from typing import Annotated

import typer

from reconvene.cli._calling import function_of
from reconvene.cli._catalogue import COMMANDS
from reconvene.cli._shells import SHELLS
from reconvene.cli._signature import signature_of
from reconvene.errors import Malformed

__all__ = ["completion_command"]


def completion_command(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="The shell.")],
) -> None:
    """Print a script that lets a shell complete commands, options, their choices, and paths.

    bash: reconvene completion bash > ~/.local/share/bash-completion/completions/reconvene

    zsh: reconvene completion zsh > DIR/_reconvene, where DIR is in $fpath before compinit runs

    fish: reconvene completion fish > ~/.config/fish/completions/reconvene.fish
    """
    if shell not in SHELLS:
        raise Malformed(f"completion {shell}: expected {', '.join(SHELLS)}")
    print(SHELLS[shell]([(command, signature_of(function_of(command))) for command in COMMANDS.values()]))
