"""A page in a real browser, where there is one: no error, its script has run, the diagram has its arrows."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.report.pages import Page
from tests.report.samples import GOLDEN, sample, verdict
from tests.report.test_spacetime import arrows_expected

from reconvene.report.analysis_page import analysis_page
from reconvene.report.trace_source import spacetime_of_trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--enable-logging=stderr", "--v=0", "--window-size=390,844", "--virtual-time-budget=2000", "--dump-dom"),
)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_page_in_a_browser(tmp_path: Path) -> None:
    directory = GOLDEN / "bad" / "evs.6.2--circle-of-three-orders"
    witness = verdict(directory).check("evs.6.2").witnesses[0]
    moment = spacetime_of_trace(directory, witness.node, witness.n, witness.detail, "evs.6.2")
    page = tmp_path / "page.html"
    page.write_text(analysis_page(sample(), [("a circle", moment)]), encoding="utf-8")
    told = subprocess.run(
        [str(CHROMIUM), *_QUIET, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert [line for line in told.stderr.splitlines() if "CONSOLE" in line] == []
    seen = Page(told.stdout.partition("<!DOCTYPE html>")[2])
    assert len(seen.of_class("arrow")) == arrows_expected(moment) == 6
    assert len(seen.of_class("tools")) == 1
    assert "on" in seen.of_class("tools")[0].attributes["class"].split(), "the script has run"
