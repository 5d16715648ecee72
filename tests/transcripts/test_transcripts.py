"""Runs every transcript: commands, a line of dashes, and their output. REWRITE=1 records the output that they have
now."""

import os
from pathlib import Path

import pytest
from tests.transcripts.group import Group
from tests.transcripts.log import Log
from tests.transcripts.sites import Sites

HERE = Path(__file__).parent
RULE = "----"
TRANSCRIPTS = sorted(HERE.rglob("*.txt"))


def replay(text: str) -> str:
    """The transcript with the output that its commands have now."""
    world: Group | Sites | Log | None = None
    out: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        script = lines[: lines.index(RULE)] if RULE in lines else lines
        commands = [line.split() for line in script if not line.startswith("#")]
        printed: list[str] = []
        for name, *arguments in commands:
            if name == "members":
                world = Group(arguments)
            elif name == "sites":
                world = Sites(arguments)
            elif name == "replicas":
                world = Log(arguments)
            elif isinstance(world, Group):
                printed += world.commands[name](arguments)
            else:
                assert world is not None, "a transcript begins with members, sites or replicas"
                world.commands[name](arguments)
                printed += world.lines
                world.lines = []
        if commands:
            out.append("\n".join([*script, RULE, *(printed or ["ok"])]))
        else:
            out.append("\n".join(script))
    return "\n\n".join(out) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_transcript(path: Path) -> None:
    recorded = path.read_text()
    now = replay(recorded)
    if os.environ.get("REWRITE"):
        path.write_text(now)
    assert now == recorded or os.environ.get("REWRITE")


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 20
