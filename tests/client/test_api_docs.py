"""Every example of the pages on the API and on objects runs as it stands there, against a real site."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.places import short_dir
from tests.ports import free_port, free_ports

from reconvene import blocking
from reconvene.runtime.access.key_files import add_client_key

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/api.md").read_text()
LOG_PAGE = (ROOT / "docs/log-api.md").read_text()
ISIS_PAGE = (ROOT / "docs/isis-api.md").read_text()
TOOLS_PAGE = (ROOT / "docs/isis-tools.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE + LOG_PAGE + ISIS_PAGE + TOOLS_PAGE, flags=re.DOTALL)
TCP = "site-b.example:7100"


@contextlib.contextmanager
def site_file(tcp: int) -> Iterator[Path]:
    with short_dir() as directory:
        add_client_key(directory / "clients.toml", "till-7", "append")
        add_client_key(directory / "clients.toml", "back-office", "admin")
        (directory / "site.toml").write_text(
            f"""
            cluster = "shop"
            name = "a"
            dir = "."
            sites = {{ a = "127.0.0.1:{free_ports(1)[0]}" }}
            seal = {{ insecure = true }}
            log = {{ begin = true }}
            isis = {{ enabled = true }}
            domain.gateways = ["a"]
            domain.pass = {{ out = ["*"], in = ["*"] }}
            domain.upper = {{ cluster = "world", sites = {{ "shop.a" = "127.0.0.1:{free_ports(1)[0]}" }} }}
            clients = {{ tcp = "127.0.0.1:{tcp}", keys = "clients.toml" }}
            """
        )
        yield directory


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 15
    assert TCP in PAGE


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_an_example(place: int) -> None:
    tcp = free_port()
    code = EXAMPLES[place].replace(TCP, f"127.0.0.1:{tcp}")
    with site_file(tcp) as directory, contextlib.ExitStack() as stack:
        if "open(" not in code:
            stack.enter_context(blocking.open(directory / "site.toml"))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=directory, env=os.environ, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
    expected = re.search(r"print\(error\)    # (.*)$", code, flags=re.MULTILINE)
    if expected is not None:
        assert done.stdout.strip() == expected[1]
