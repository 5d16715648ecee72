"""The files for servers in contrib/ fit the program: the unit, its example configuration, the container's
commands."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from reconvene.cli._catalogue import COMMANDS
from reconvene.runtime.config.file import load

CONTRIB = Path(__file__).parent.parent / "contrib"
UNIT = CONTRIB / "systemd" / "reconvene@.service"
CONTAINER = (CONTRIB / "container" / "Containerfile").read_text()
PATIENCE_S = 60


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit of site a, with a program that exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    file = tmp_path / "reconvene@a.service"
    file.write_text(UNIT.read_text().replace("/usr/local/bin/reconvene", "/bin/true"))
    return file


def test_systemd_understands_every_line_of_the_unit(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_gives_the_site_no_more_than_it_needs(unit: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", unit],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_example_of_a_configuration_is_one(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (CONTRIB / "README.md").read_text(), re.DOTALL)
    key = tmp_path / "cluster.key"
    key.touch()
    (tmp_path / "a.toml").write_text(example.replace("/run/credentials/reconvene@a.service/cluster.key", str(key)))
    config = load(tmp_path / "a.toml")
    assert str(config.dir) == f"/var/lib/{directive('StateDirectory').replace('%i', 'a')}"
    assert str(config.unix_socket.parent) == f"/run/{directive('RuntimeDirectory').replace('%i', 'a')}"
    assert directive("LoadCredential").partition(":")[0] == "cluster.key"


def test_what_is_called_there_is_a_command() -> None:
    called = [directive("ExecStart"), *re.findall(r"CMD (reconvene .*?) >", CONTAINER)]
    called.append(" ".join(["reconvene", *json.loads(re.findall(r"^CMD (\[.*\])$", CONTAINER, re.MULTILINE)[0])]))
    assert len(called) == 3
    assert all(shlex.split(line)[1] in COMMANDS for line in called)


def directive(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)
