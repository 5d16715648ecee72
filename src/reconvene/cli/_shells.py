"""Completion scripts, one for each shell, made from the commands' options."""

from collections.abc import Callable, Mapping, Sequence

from reconvene.cli._catalogue import CATALOGUE, FAMILIES, Command, family
from reconvene.cli._signature import Expects, Option, Signature, Value

__all__ = ["SHELLS"]

Commands = Sequence[tuple[Command, Signature]]

_FIRSTS = {
    name.partition(" ")[0]: section.title if " " in name else command.summary
    for section in CATALOGUE
    for command in section.commands
    for name in (command.name,)
}
"""The words that may come first, with a summary of each."""


def _bash(commands: Commands) -> str:
    lines = [
        "# bash completion for reconvene; needs nothing but bash.",
        "_reconvene() {",
        "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}",
        "    local known= flags= values=",
        "    COMPREPLY=()",
        "    if [[ $COMP_CWORD -eq 1 ]]; then",
        f'        known="{" ".join(_FIRSTS)}" flags="--help --version"',
        "    fi",
        "    case $command in",
    ]
    for first in FAMILIES:
        lines += [
            f"    {first})",
            f'        if [[ $COMP_CWORD -eq 2 ]]; then known="{" ".join(family(first))}" flags=--help; fi',
            '        command="$command ${COMP_WORDS[2]}" ;;',
        ]
    lines += [
        "    esac",
        "    if [[ -n $known ]]; then",
        "        if [[ $word == -* ]]; then known=$flags; fi",
        '        COMPREPLY=($(compgen -W "$known" -- "$word"))',
        "        return",
        "    fi",
        '    case "$command $before" in',
    ]
    for command, signature in commands:
        for option in signature.options:
            pattern = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
            if option.value.expects is not Expects.NOTHING:
                lines.append(f'    {pattern}) values="{_bash_values(option.value)}" ;;')
    lines += ["    *)", '        case "$command" in']
    for command, signature in commands:
        flags = " ".join(flag for option in signature.options for flag in option.flags)
        values = _bash_values(signature.argument)
        lines.append(f'        "{command.name}") flags="{flags}" values="{values}" ;;')
    lines += [
        "        esac ;;",
        "    esac",
        "    if [[ $word == -* && -n $flags ]]; then",
        '        COMPREPLY=($(compgen -W "$flags" -- "$word"))',
        '    elif [[ $values == "<path>" ]]; then',
        "        compopt -o filenames 2>/dev/null",
        "        local IFS=$'\\n'",
        '        COMPREPLY=($(compgen -f -- "$word"))',
        "    else",
        '        COMPREPLY=($(compgen -W "$values" -- "$word"))',
        "    fi",
        "}",
        "complete -F _reconvene reconvene",
    ]
    return "\n".join(lines)


def _bash_values(value: Value) -> str:
    return "<path>" if value.expects is Expects.PATH else " ".join(value.choices)


def _zsh(commands: Commands) -> str:
    lines = [
        "#compdef reconvene",
        "_reconvene() {",
        '    local command="$words[2]"',
        "    local -a known",
        "    if (( CURRENT == 2 )); then",
        f"        known=({_zsh_described(_FIRSTS)})",
        "        _describe command known; return",
        "    fi",
        '    case "$command" in',
    ]
    for first in FAMILIES:
        described = _zsh_described({word: command.summary for word, command in family(first).items()})
        lines += [
            f"    {first})",
            f"        if (( CURRENT == 3 )); then known=({described}); _describe command known; return; fi",
            '        command="$command $words[3]"; shift words; (( CURRENT-- )) ;;',
        ]
    lines += ["    esac", "    shift words; (( CURRENT-- ))", '    case "$command" in']
    for command, signature in commands:
        specs = [_zsh_option(flag, option) for option in signature.options for flag in option.flags]
        if signature.argument.expects is Expects.PATH or signature.argument.choices:
            specs.append(_quoted(f"*:argument:{_zsh_action(signature.argument)}"))
        lines.append(f'    "{command.name}") _arguments {" ".join(specs)} ;;')
    lines += [
        "    esac",
        "}",
        "# In $fpath this file is the function itself; if it is sourced, the function has to be registered.",
        'if [[ "$funcstack[1]" == _reconvene ]]; then _reconvene "$@"; else compdef _reconvene reconvene; fi',
    ]
    return "\n".join(lines)


def _zsh_described(words: Mapping[str, str]) -> str:
    return " ".join(_quoted(f"{word}:{summary.replace(':', chr(92) + ':')}") for word, summary in words.items())


def _zsh_option(flag: str, option: Option) -> str:
    said = option.help
    for special in "\\[]:":
        said = said.replace(special, f"\\{special}")
    value = "" if option.value.expects is Expects.NOTHING else f":value:{_zsh_action(option.value)}"
    return _quoted(f"*{flag}[{said}]{value}")


def _zsh_action(value: Value) -> str:
    if value.expects is Expects.PATH:
        return "_files"
    return f"({' '.join(value.choices)})" if value.choices else " "


_FISH_FIRST = "'test (count (commandline -opc)) -eq 1'"
"""True in fish while only the program's name is typed."""


def _fish(commands: Commands) -> str:
    lines = [
        "# fish completion for reconvene.",
        "function __reconvene_typed",
        "    set -l typed (commandline -opc)",
        "    set -e typed[1]",
        "    test (count $typed) -ge (count $argv); or return 1",
        "    for at in (seq (count $argv))",
        '        test "$typed[$at]" = "$argv[$at]"; or return 1',
        "    end",
        "end",
        "function __reconvene_just",
        "    test (count (commandline -opc)) -eq (math (count $argv) + 1); and __reconvene_typed $argv",
        "end",
        "complete -c reconvene -f",
        f"complete -c reconvene -n {_FISH_FIRST} -l version -d 'Print the version and exit.'",
    ]
    for first, summary in _FIRSTS.items():
        lines.append(f"complete -c reconvene -n {_FISH_FIRST} -a {first} -d {_quoted(summary)}")
    for first in FAMILIES:
        for second, command in family(first).items():
            lines.append(
                f"complete -c reconvene -n '__reconvene_just {first}' -a {second} -d {_quoted(command.summary)}"
            )
    for command, signature in commands:
        begin = f"complete -c reconvene -n '__reconvene_typed {command.name}'"
        lines += [f"{begin} {_fish_flags(option)} -d {_quoted(option.help)}" for option in signature.options]
        if signature.argument.expects is not Expects.NOTHING:
            lines.append(f"{begin} {_fish_value(signature.argument)}")
    return "\n".join(line.rstrip() for line in lines)


def _fish_flags(option: Option) -> str:
    names = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    if option.value.expects is Expects.NOTHING:
        return names
    needs = "-r" if option.value.expects is Expects.PATH else "-x"
    return f"{names} {needs} {_fish_value(option.value)}".rstrip()


def _fish_value(value: Value) -> str:
    if value.expects is Expects.PATH:
        return "-F"
    return f"-a {_quoted(' '.join(value.choices))}" if value.choices else ""


def _quoted(text: str) -> str:
    """In single quotes, valid in each of these shells; a quote in the text is escaped."""
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: Mapping[str, Callable[[Commands], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
"""By the name of the shell."""
