"""The dashboard, in a real browser, while a real judge follows the trace of a real cluster: verified up to when."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.client.places import short_dir
from tests.runtime.http.browser import CHROMIUM, browsing
from tests.runtime.http.test_dashboard_browser import appended, fits

from reconvene.local import LocalCluster
from reconvene.trace.judged import Judged, read_judged, write_judged
from reconvene.trace.writer import node_file

pytestmark = [
    pytest.mark.long("starts a browser, three sites and Spark"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here"),
]

LINE = "document.querySelector('#judged').textContent"
HIDDEN = "document.querySelector('#judged').hidden"
SPARK_S = 240.0


def last_row(path: Path) -> dict[str, object]:
    row: dict[str, object] = json.loads(path.read_bytes().splitlines()[-1])
    return row


async def go_through(cluster: LocalCluster, directory: Path, judge: "subprocess.Popen[str]") -> None:
    async with browsing(directory / "profile") as tab:
        await tab.open(cluster.dashboards["a"])
        await tab.wait("document.body?.dataset.link === 'live'")
        begun = time.monotonic()
        while read_judged(cluster.trace_dir) is None:
            assert judge.poll() is None
            assert time.monotonic() < begun + SPARK_S
            await asyncio.sleep(0.2)
        await tab.wait(f"{LINE}.startsWith('Verified up to ') && {LINE}.endsWith(' events, no violation found.')")
        await appended(cluster, "a", "one black coffee")
        path = node_file(cluster.trace_dir, "b")
        row = last_row(path)
        planted = {"node": "b", "inc": 1, "n": int(str(row["n"])) + 1, "t": row["t"], "layer": "corel"}
        with path.open("ab") as file:
            file.write(json.dumps({**planted, "kind": "log", "msg": "c:1:99999", "ts": [1]}).encode() + b"\n")
        while not (told := read_judged(cluster.trace_dir)) or not told.violations:
            assert judge.poll() is None
            assert time.monotonic() < begun + SPARK_S
            await asyncio.sleep(0.2)
        await tab.wait(f"{LINE}.includes(' found') && document.querySelector('#judged').dataset.violated === 'true'")
        await fits(tab)
        judge.send_signal(signal.SIGINT)
        out, _ = await asyncio.to_thread(judge.communicate, timeout=SPARK_S)
        report = json.loads(out)
        assert judge.returncode == 1
        check = next(check for check in report["checks"] if check["id"] == "corel.3.1")
        assert [witness["node"] for witness in check["witnesses"]] == ["b"]
        await tab.wait(f"{LINE}.includes('the judge ended at ')")
        assert tab.complaints == []


def test_a_violation_in_a_live_trace_shows_on_the_page(tmp_path: Path) -> None:
    with short_dir() as directory, LocalCluster.create(directory / "cluster", nodes=3, trace=True) as cluster:
        cluster.start()
        command = [
            sys.executable,
            "-m",
            "reconvene",
            "judge",
            "--dir",
            str(directory / "cluster"),
            "--follow",
            "--json",
        ]
        judge = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            asyncio.run(go_through(cluster, tmp_path, judge))
        finally:
            judge.kill()
            judge.wait()


def test_what_the_page_says(tmp_path: Path) -> None:
    """Without Spark: the line for each state of a judge."""

    async def see(cluster: LocalCluster) -> None:
        async with browsing(tmp_path / "profile") as tab:
            await tab.open(cluster.dashboards["a"])
            await tab.wait("document.body?.dataset.link === 'live'")
            assert await tab.ask(HIDDEN)
            now = time.time_ns() // 1_000_000
            judged = Judged(
                at=now, rows=1_234, verified={"a": now, "b": now - 5_000}, violations=0, not_judged=[], over=False
            )
            for told, says in (
                ({"at": now}, "1,234 events, no violation found."),
                ({"at": now - 60_000}, "the judge has not reported for 1 min"),
                ({"at": now, "over": True}, "the judge ended at"),
                ({"at": now, "violations": 2}, "2 violations found."),
                (
                    {"at": now, "not_judged": ["corel: node c is too far behind"]},
                    "not judged any more: corel: node c",
                ),
            ):
                write_judged(cluster.trace_dir, replace(judged, **told))
                await tab.wait(f"{LINE}.includes({json.dumps(says)}) && {LINE}.includes('(b)')")
            (cluster.trace_dir / "judge.json").write_text("{")
            await tab.wait(HIDDEN)
            assert tab.complaints == []

    with short_dir() as directory, LocalCluster.create(directory / "cluster", nodes=2, trace=True) as cluster:
        cluster.start()
        asyncio.run(see(cluster))
