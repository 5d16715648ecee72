"""docs/first-server.md works as it is written, on free ports: the file, the commands, and a site in a program."""

import re
import shlex
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.pages import GOES_ON, ROOT, blocks, call, check, going_on, run_program, session
from tests.ports import free_ports

PAGE = (ROOT / "docs/first-server.md").read_text()
PORTS = ("7001", "7002", "7003", "7080")


@pytest.mark.long("starts sites as the page says")
def test_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    page = re.sub("|".join(PORTS), lambda found: ports[found[0]], PAGE)
    (file,), (program,) = blocks(page, "toml"), blocks(page, "python")
    steps = [step for block in blocks(page, "console") for step in session(block)]
    (node,) = (step for step in steps if GOES_ON.match(step.command))
    start = steps.index(node)
    with short_dir() as directory:
        monkeypatch.chdir(directory)
        Path("site.toml").write_text(file)
        for step in steps[:start]:
            check(step, call(step.command, capsys))
        with going_on(shlex.split(node.command)[1:], directory, until="ready") as end:
            for step in steps[start + 1 :]:
                check(step, call(step.command, capsys))
            end(node.shown)
        assert "delivered" in run_program(program, directory)
