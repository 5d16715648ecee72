"""Joined clusters of real processes: 3 × 3 sites on loopback, their representatives killed under load."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.real.wide_ledger import GROUP, Ledger

import reconvene
from reconvene.errors import Rejected
from reconvene.local import LocalDomains
from reconvene.verify.engine import verify
from reconvene.verify.load import load_histories

SETTINGS: dict[str, object] = {"log": {"enabled": False}}


@pytest.mark.long("starts nine sites, and kills one under load")
def test_a_representative_is_killed_under_load(tmp_path: Path) -> None:
    with LocalDomains.create(tmp_path / "joined", clusters=3, nodes=3, gateways=2, settings=SETTINGS) as domains:
        domains.start()
        killed = asyncio.run(_kill_under_load(domains))
        assert killed.startswith("berlin/")
        assert f"berlin/{domains.representative('berlin')}" != killed
        trace = domains.finish_trace()
    expect_good(
        trace,
        "wide.order",
        "wide.first",
        "wide.rep",
        "wide.agree",
        "wide.safe",
        "wide.causal",
        "wide.fifo",
        "live.wide",
    )


@pytest.mark.long("starts six sites, and kills both gateways of a cluster")
def test_a_cluster_without_a_gateway_goes_on_alone_and_comes_back(tmp_path: Path) -> None:
    with LocalDomains.create(tmp_path / "joined", clusters=2, nodes=3, gateways=2, settings=SETTINGS) as domains:
        domains.start()
        asyncio.run(_lose_both_gateways(domains))
        trace = domains.finish_trace()
    expect_good(trace, "wide.order", "wide.self", "wide.rep", "live.wide")


async def _lose_both_gateways(domains: LocalDomains) -> None:
    at = domains.addresses
    async with reconvene.connect(at["berlin/c"]) as berlin, reconvene.connect(at["paris/c"]) as paris:
        here = await berlin.join(GROUP, wide=True, timeout=10)
        there = await paris.join(GROUP, wide=True, timeout=10)
        await asyncio.to_thread(domains.crash, "berlin/a", "berlin/b")
        await _until_connected(here, "berlin")
        await _until_connected(there, "paris")
        await here.send(b"alone")
        assert await _next_data(here) == b"alone"
        await asyncio.to_thread(domains.restart, "berlin/a", "berlin/b")
        await _until_connected(here, "berlin", "paris")
        await _until_connected(there, "berlin", "paris")
        await asyncio.to_thread(
            domains.wait_for
        )  # both gateways are above: the final wide configuration has a message
        await here.send(b"back")
        assert await _next_data(here) == await _next_data(there) == b"back"


async def _until_connected(group: reconvene.Group, *domains: str) -> None:
    while True:
        event = await group.next(30)
        if isinstance(event, reconvene.WideView) and event.kind == "regular" and event.domains == domains:
            return


async def _next_data(group: reconvene.Group) -> bytes:
    while not isinstance(event := await group.next(30), reconvene.Message):
        pass
    return event.data


async def _kill_under_load(domains: LocalDomains) -> str:
    ledger = Ledger(domains, list(domains.nodes), services=("agreed", "causal", "safe", "fifo"))
    await ledger.start()
    await asyncio.sleep(1.0)
    (killed,) = await asyncio.to_thread(domains.crash, "@berlin")
    ledger.programs[killed].ended = True
    await asyncio.sleep(3.0)
    await ledger.stop_sending()
    await ledger.finish()
    ledger.judge()
    crossed = [message for message in ledger.programs["oslo/c"].got if message.startswith("berlin/c#")]
    assert len(crossed) > 50, "messages crossed before and after"
    return killed


@pytest.mark.long("starts four sites in two clusters")
def test_what_a_program_sees(tmp_path: Path) -> None:
    with LocalDomains.create(tmp_path / "joined", clusters=2, nodes=2, gateways=1, settings=SETTINGS) as domains:
        domains.start()
        asyncio.run(_look(domains))
        trace = domains.finish_trace()
    expect_good(trace, "wide.once", "wide.pass", "wide.order")


async def _look(domains: LocalDomains) -> None:
    at = domains.addresses
    async with reconvene.connect(at["berlin/b"]) as berlin, reconvene.connect(at["paris/b"]) as paris:
        with pytest.raises(Rejected, match="wide group has no primary component"):
            await berlin.join(GROUP, wide=True, primary=True)
        here = await berlin.join(GROUP, wide=True, timeout=10)
        there = await paris.join(GROUP, wide=True, timeout=10)
        assert isinstance(here.view, reconvene.WideView)
        assert here.view.domains == ("berlin", "paris")
        while here.view.members != (here.me, there.me):  # both are told of each other
            await here.next(10)
        while there.view.members != (here.me, there.me):
            await there.next(10)
        for site in (berlin, paris):
            assert (await site.status()).counters["wide_refused"] == 0, "rosters of other clusters are valid"
        await here.send(b"for this cluster", scope="cluster")
        await here.send(b"for all")
        texts: list[bytes] = []
        while len(texts) < 2:
            event = await here.next(10)
            if isinstance(event, reconvene.Message):
                assert str(event.sender).startswith("berlin/b:1:")
                assert event.sender == here.me
                texts.append(event.data)
        assert texts == [b"for this cluster", b"for all"]
        while not isinstance(event := await there.next(10), reconvene.Message):
            pass
        assert (event.data, event.sender) == (b"for all", here.me)
        await asyncio.to_thread(domains.partition, [["berlin"], ["paris"]])
        while not (isinstance(event := await there.next(20), reconvene.WideView) and event.domains == ("paris",)):
            pass
        assert event.kind == "transitional" or event.unreachable == ("berlin",)
        await here.send(b"alone")
        while not isinstance(event := await here.next(20), reconvene.Message):
            pass
        assert event.data == b"alone"
        await asyncio.to_thread(domains.heal)
        while not (isinstance(event := await there.next(20), reconvene.WideView) and len(event.domains) == 2):
            pass
        await there.send(b"together again")
        while not isinstance(event := await here.next(20), reconvene.Message):
            pass
        assert event.data == b"together again"


LIAR = """
import sys
from msgspec import structs
from reconvene.domains import gateway, messages
from reconvene.cli import main
truthful = gateway.encode
gateway.encode = lambda said: truthful(
    structs.replace(said, domain="oslo") if isinstance(said, messages.Crossing) else said
)
main(sys.argv[1:])
"""
"""A gateway of berlin that says that its messages are oslo's."""


@pytest.mark.long("starts three sites, one of them a liar")
def test_a_gateway_that_speaks_for_another_cluster_is_refused_and_counted(tmp_path: Path) -> None:
    names = ["berlin", "oslo", "paris"]
    with LocalDomains.create(
        tmp_path / "joined", names, nodes=1, gateways=1, trace=False, settings=SETTINGS
    ) as domains:
        domains.start()
        domains.crash("berlin/a")
        file = domains.clusters["berlin"].layout.config("a")
        with (tmp_path / "liar.log").open("wb") as log:
            liar = subprocess.Popen([sys.executable, "-c", LIAR, "node", "--config", str(file)], stderr=log)
        try:
            asyncio.run(_hear_a_liar(domains))
        finally:
            liar.kill()
            liar.wait()


async def _hear_a_liar(domains: LocalDomains) -> None:
    at = domains.addresses
    async with reconvene.connect(at["berlin/a"], wait=20) as liar, reconvene.connect(at["paris/a"]) as paris:
        here = await liar.join(GROUP, wide=True, timeout=20)
        there = await paris.join(GROUP, wide=True, timeout=20)
        async with asyncio.timeout(30):
            while (told := (await liar.status()).domain) is None or len(told.domains) < 3:
                await asyncio.sleep(0.05)
        await here.send(b"from oslo, really")
        async with asyncio.timeout(20):
            while not (await paris.status()).counters["wide_refused"]:
                await asyncio.sleep(0.05)
        await there.send(b"from paris")
        while not isinstance(event := await there.next(20), reconvene.Message):
            pass
        assert (event.data, event.sender.site) == (b"from paris", "paris/a"), "nothing of the liar's was delivered"


@pytest.mark.long("starts six sites, one of them in the test itself, and kills one")
def test_programs_are_told_of_lost_sites_embedded_and_behind_a_socket(tmp_path: Path) -> None:
    with LocalDomains.create(
        tmp_path / "joined", clusters=2, nodes=3, gateways=1, trace=False, settings=SETTINGS
    ) as domains:
        domains.start()
        domains.crash("paris/c")
        asyncio.run(_lose_a_site(domains))


async def _lose_a_site(domains: LocalDomains) -> None:
    at = domains.addresses
    file = domains.clusters["paris"].layout.config("c")
    async with (
        reconvene.connect(at["berlin/c"]) as berlin,
        reconvene.connect(at["paris/b"]) as paris,
        reconvene.open(file) as inside,
    ):
        there = await berlin.join(GROUP, wide=True, timeout=10)
        groups = [await site.join(GROUP, wide=True, timeout=20) for site in (paris, inside)]
        me = there.me
        for group in groups:
            while me not in group.view.members or len(group.view.members) < 3:
                await group.next(30)
        await asyncio.to_thread(domains.crash, "berlin/c")
        for group in groups:
            while not (isinstance(event := await group.next(30), reconvene.WideView) and event.lost):
                pass
            (lost,) = event.lost
            assert (lost.site, lost.processes) == ("berlin/c", (me,))
            assert lost.conf.isdecimal()
            assert (event.left, event.unreachable) == ((me,), ())


@pytest.mark.long("starts three sites, one of them with other rules")
def test_a_gateway_with_other_rules_is_refused_and_named(tmp_path: Path) -> None:
    with LocalDomains.create(
        tmp_path / "joined", ["berlin"], nodes=3, gateways=2, trace=False, settings=SETTINGS
    ) as domains:
        domains.start()
        domains.crash("berlin/b")
        layout = domains.clusters["berlin"].layout
        text = layout.config("b").read_text()
        other = layout.config("b").with_name("other.toml")
        other.write_text(text.replace('out = ["*"]', 'out = ["orders*"]'))
        assert other.read_text() != text
        with (tmp_path / "b.log").open("wb") as log:
            program = [sys.executable, "-m", "reconvene", "node", "--config", str(other)]
            started = subprocess.Popen(program, stderr=log)
        try:
            asyncio.run(_see_refused(domains))
        finally:
            started.kill()
            started.wait()
        (line,) = [line for line in layout.log("c").read_text().splitlines() if "refused: other rules" in line]
        assert "domain.pass.out" in line
        assert "site=b" in line


async def _see_refused(domains: LocalDomains) -> None:
    at = domains.addresses
    async with reconvene.connect(at["berlin/c"]) as here, reconvene.connect(at["berlin/b"], wait=20) as refused:
        for site in (here, refused):
            async with asyncio.timeout(30):
                while (told := (await site.status()).domain) is None or not (told.refused and told.representative):
                    await asyncio.sleep(0.05)  # while the parts meet, nobody represents the cluster
            assert (told.refused, told.representative) == ({"b": ["domain.pass.out"]}, "a")
            assert (await site.status()).counters["wide_refused"] > 0
    shown = subprocess.run(
        [sys.executable, "-m", "reconvene", "domains", "--dir", str(domains.layout)],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert "refused, its rules differ: domain.pass.out" in shown.stdout


def expect_good(trace: Path, *looked: str) -> None:
    """Every level holds, and these checks had cases."""
    report = verify(load_histories(trace))
    assert report.ok, [check.witnesses[:2] for check in report.checks if check.violations]
    for check in looked:
        assert report.check(check).cases > 0, f"{check} looked at nothing"
