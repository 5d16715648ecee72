"""reconvene.testing.Cluster: the same objects as `reconvene.connect` gives, on simulated machines."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reconvene
from reconvene.testing import Cluster, TimedOut, Violated
from reconvene.trace.reader import read_run
from reconvene.trace.writer import node_file

Make = Callable[..., Cluster]


class Words(reconvene.StateMachine):
    def __init__(self) -> None:
        self.words: list[str] = []

    def apply(self, entry: reconvene.Entry) -> None:
        self.words.append(entry.data.decode())

    def snapshot(self) -> bytes:
        return " ".join(self.words).encode()

    def restore(self, data: bytes) -> None:
        self.words = data.decode().split()


# -- the same objects


def test_the_objects_are_those_of_connect(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site, reconvene.connect(net.addresses.values()) as other:
            group = await site.join("orders")
            receipt = await site.log.append(b"one")
            assert [type(thing) for thing in (site, other, group, site.log, receipt, site.log.follow())] == [
                reconvene.Site,
                reconvene.Site,
                reconvene.Group,
                reconvene.Log,
                reconvene.Receipt,
                reconvene.Follow,
            ]
            assert await receipt.ordered() == 0
            async with other.log.run(Words()) as runner:
                assert type(runner) is reconvene.Runner

    cluster("abc").run(scenario)


def test_groups(cluster: Make) -> None:
    async def scenario(net: Cluster) -> list[bytes]:
        async with net.connect("a") as a, net.connect("b") as b:
            sender, reader = await a.join("orders"), await b.join("orders")
            await sender.send(b"a pizza")
            await asyncio.sleep(1)
            net.partition([["a"], ["b", "c"]])
            await net.wait_for()
            await sender.send(b"not for b")
            seen = []
            async for event in reader:
                if isinstance(event, reconvene.Message):
                    seen.append(event.data)
                if isinstance(event, reconvene.View) and event.left:
                    return seen
            raise AssertionError

    assert cluster("abc").run(scenario) == [b"a pizza"]


def test_a_transaction(cluster: Make) -> None:
    async def scenario(net: Cluster) -> list[bytes]:
        async with net.connect("a") as site:
            staging = site.log.staging()
            await staging.put([b"debit", b"credit"])
            staged = await staging.ordered()
            await (await site.log.append(b"between")).ordered()
            assert [entry.data for entry in await site.log.read()] == [b"between"]
            await site.log.commit(staged.runs, name="transfer")
            return [entry.data for entry in await site.log.read()]

    assert cluster("abc").run(scenario) == [b"between", b"debit", b"credit"]


def test_a_state_machine_goes_on_at_its_snapshot(cluster: Make) -> None:
    async def scenario(net: Cluster) -> list[str]:
        async with net.connect("b") as site, site.log.run(Words(), snapshot_every=2) as runner:
            for word in ("a", "b", "c", "d"):
                await runner.applied(await (await site.log.append(word.encode())).ordered())
            while await site.log.snapshot("Words") is None:
                await asyncio.sleep(0.1)
        net.crash("b")
        await net.restart("b")
        async with net.connect("b") as site:
            words = Words()
            async with site.log.run(words) as runner:
                await runner.caught_up()
            return words.words

    assert cluster("abc").run(scenario) == ["a", "b", "c", "d"]


# -- faults


def test_the_small_side_accepts_and_orders_later(cluster: Make) -> None:
    async def scenario(net: Cluster) -> float:
        async with net.connect("a") as site:
            net.partition([["a"], ["b", "c"]])
            await net.wait_for()
            assert await site.health() == "minority"
            receipt = await site.log.append(b"later")
            with pytest.raises(reconvene.OutcomeUnknown):
                await receipt.ordered(timeout=60)
            net.heal()
            assert await receipt.ordered() == 0
        return asyncio.get_running_loop().time()

    assert 60 < cluster("abc").run(scenario) < 65


def test_a_client_fails_over_when_its_site_crashes(cluster: Make) -> None:
    async def scenario(net: Cluster) -> list[bytes]:
        async with net.connect("a", "b", timeout=30) as site:
            await site.log.append(b"at a")
            net.crash("a")
            receipt = await site.log.append(b"at b", timeout=30)
            assert site.name == "b"
            await receipt.ordered()
            return [entry.data for entry in await site.log.read()]

    assert cluster("abc").run(scenario) == [b"at a", b"at b"]


def test_what_was_acknowledged_survives_a_crash_of_all(cluster: Make) -> None:
    async def scenario(net: Cluster) -> int:
        async with net.connect("a") as site:
            await (await site.log.append_many(b"%d" % number for number in range(100))).ordered()
        net.crash(*net.names)
        await net.restart(*net.names)
        await net.wait_for()
        async with net.connect("c") as site:
            await site.log.barrier()
            return len(await site.log.read())

    assert cluster("abc").run(scenario) == 100


def test_a_paused_site_is_left_and_comes_back(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a", timeout=5) as paused, net.connect("b") as site:
            net.pause("a")
            await net.wait_for([["b", "c"]])
            with pytest.raises(reconvene.Unavailable, match="did not answer in 5 s"):
                await paused.health()
            await (await site.log.append(b"without a")).ordered()
            net.resume("a")
            await net.wait_for()
            assert await paused.health() == "primary"

    cluster("abc").run(scenario)


@pytest.mark.parametrize(
    ("fault", "why"), [("fill_disk", "No space left on device"), ("fail_disk", "Input/output error")]
)
def test_a_disk_that_refuses(cluster: Make, fault: str, why: str) -> None:
    async def scenario(net: Cluster) -> int:
        async with net.connect("a") as site:
            getattr(net, fault)("a")
            late = asyncio.create_task(site.log.append(b"first", timeout=60))
            await asyncio.sleep(5)
            assert not late.done(), "it is not on disk"
            with pytest.raises(reconvene.Unavailable, match=why):
                await site.log.append(b"second")
            assert why in net.statuses()["a"]["storage"]
            net.mend_disk("a")
            await (await late).ordered()
            return len(await site.log.read())

    assert cluster("abc").run(scenario) == 1


def test_a_site_with_a_full_disk_does_not_start(cluster: Make) -> None:
    async def scenario(net: Cluster) -> str:
        net.crash("a")
        net.fill_disk("a")
        with pytest.raises(reconvene.Unavailable, match="No space left"):
            await net.restart("a")
        return net.state("a")

    assert cluster("abc").run(scenario) == "down"


def test_a_slow_disk_delays_receipts_alone(cluster: Make) -> None:
    async def scenario(net: Cluster) -> float:
        loop = asyncio.get_running_loop()
        async with net.connect("a") as site:
            net.slow_disk("a", "2s")
            begun = loop.time()
            await site.log.append(b"x", timeout=10)
            took = loop.time() - begun
            assert len(net.statuses()["b"]["members"]) == 3
            return took

    assert 2 < cluster("abc").run(scenario) < 5


def test_a_quorum_of_other_replicas_than_the_first(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site:
            await site.log.change_replicas(remove="d")
            net.crash("c")
            await (await site.log.append(b"two of the three that are left")).ordered()

    net = cluster("abcd")
    net.run(scenario, settle=False)
    assert read_run(net.trace_dir).quorum == {"kind": "majority", "changed": True}


def test_a_lossy_network(cluster: Make) -> None:
    async def scenario(net: Cluster) -> int:
        async with net.connect("a") as site:
            net.network(loss=0.2, duplicate=0.1, reorder=0.1)
            await (await site.log.append_many(b"%d" % number for number in range(200))).ordered()
            net.cut("a", "b")
            await asyncio.sleep(5)
            net.mend("a", "b")
            await (await site.log.append(b"last")).ordered()
            return len(await site.log.read())

    assert cluster("abc", seed=3).run(scenario) == 201


def test_a_repaired_network_can_be_broken_again(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        net.network(loss=1.0)
        await net.wait_for([["a"], ["b"], ["c"]])
        await net.repair()
        net.network(loss=1.0)
        await net.wait_for([["a"], ["b"], ["c"]])

    cluster("abc").run(scenario)


def test_a_clean_stop(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a", "b", timeout=20) as site:
            await net.stop("a")
            assert net.state("a") == "down"
            await net.wait_for([["b", "c"]], timeout_s=5)
            assert await site.health() == "primary"
            async with net.connect("b") as other:
                await other.stop()  # as an admin asks for it
            while net.state("b") == "up":
                await asyncio.sleep(0.1)

    cluster("abc").run(scenario)


# -- programs beside the sites


async def teller(addresses: list[str], told: list[str]) -> None:
    async with reconvene.connect(addresses, wait=60, timeout=3) as site:
        told.append(f"begins at {site.name}")
        for number in range(1000):
            try:
                await site.log.append(f"{number}".encode())
                told.append(f"{number} at {site.name}")
            except reconvene.ReconveneError as error:
                told.append(type(error).__name__)
            await asyncio.sleep(1)


def test_a_program_is_cut_off_with_its_machine(cluster: Make) -> None:
    """One that runs at b can't reach a across the partition, and goes over to its own site."""

    async def scenario(net: Cluster) -> list[str]:
        told: list[str] = []
        net.spawn("b", teller, [net.address("a"), net.address("b")], told)
        await asyncio.sleep(2.5)
        net.partition([["a"], ["b", "c"]])
        await asyncio.sleep(40)
        return told

    told = cluster("abc").run(scenario)
    assert told[:4] == ["begins at a", "0 at a", "1 at a", "2 at a"]
    assert told[-1].endswith("at b")


def test_a_program_dies_and_begins_anew_with_its_machine(cluster: Make) -> None:
    async def scenario(net: Cluster) -> list[str]:
        told: list[str] = []
        program = net.spawn("a", teller, [net.address("a")], told)
        await asyncio.sleep(1.5)
        net.crash("a")
        assert not program.running
        with pytest.raises(reconvene.Rejected, match="its machine is down"):
            program.start()
        await asyncio.sleep(20)
        await net.restart("a")
        assert program.running
        await asyncio.sleep(1.5)
        net.pause("a")
        await asyncio.sleep(20)
        program.kill()
        return told

    assert cluster("abc").run(scenario) == ["begins at a", "0 at a", "1 at a"] * 2


def test_what_a_program_raises_fails_the_test(cluster: Make) -> None:
    async def faulty() -> None:
        await asyncio.sleep(1)
        raise KeyError("a mistake")

    async def scenario(net: Cluster) -> None:
        net.spawn("a", faulty)
        await asyncio.sleep(100)

    with pytest.raises(KeyError, match="a mistake"):
        cluster("abc").run(scenario)


def test_programs_talk_with_each_other(cluster: Make) -> None:
    """Over connections of their own, which follow the network too."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve() -> None:
        async with await asyncio.start_server(echo, "a", 8080) as server:
            await server.serve_forever()

    async def ask(size: int) -> int:
        reader, writer = await asyncio.open_connection("a", 8080)
        writer.write(bytes(size))
        data = await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()
        return len(data)

    async def scenario(net: Cluster) -> None:
        net.spawn("a", serve)
        assert await net.spawn("b", ask, 3 << 20).wait() == 3 << 20
        net.partition([["a"], ["b", "c"]])
        cut_off = net.spawn("b", ask, 10)
        await asyncio.sleep(60)
        assert cut_off.running
        net.heal()
        assert await cut_off.wait() == 10
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("b", 8080)

    cluster("abc").run(scenario)


# -- the verdict


def test_a_broken_history_is_found_out(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site:
            await (await site.log.append_many([b"x", b"y"])).ordered()

    made = cluster("abc")
    made.run(scenario)
    assert made.verify().ok
    path = node_file(made.trace_dir, "b")
    swapped = {b'"msg":"a:1:1","pos":0': b'"msg":"a:1:2","pos":0', b'"msg":"a:1:2","pos":1': b'"msg":"a:1:1","pos":1'}
    rows = path.read_bytes()
    for before, after in swapped.items():
        assert before in rows
        rows = rows.replace(before, after)
    path.write_bytes(rows)
    with pytest.raises(Violated, match=r"seed-0: .*corel\.") as found:
        made.verify()
    assert not found.value.report.ok


def test_the_judge_sees_liveness_once_all_is_mended(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        async with net.connect("a") as site:
            net.partition([["a"], ["b", "c"]])
            await site.log.append(b"ordered after the end")
            net.crash("b")
            net.pause("c")

    made = cluster("abc")
    made.run(scenario)
    assert b'"settled": true' in (made.trace_dir / "run.json").read_bytes()
    assert b'"green"' in node_file(made.trace_dir, "b").read_bytes()


def test_what_is_asked_wrongly(cluster: Make) -> None:
    async def scenario(net: Cluster) -> None:
        wrongs: list[tuple[Callable[[], object], str]] = [
            (lambda: net.crash("x"), r"there is no site 'x'; expected one of a, b"),
            (lambda: net.resume("a"), "site a is up; expected one that is paused"),
            (lambda: net.partition([["a"], ["a"]]), "named twice"),
            (lambda: net.address("x"), "no site 'x'"),
        ]
        for wrong, why in wrongs:
            with pytest.raises(reconvene.Rejected, match=why):
                wrong()
        with pytest.raises(TimedOut, match=r"not in the configurations a after 1 s: a is in .* of a,b"):
            await net.wait_for([["a"]], timeout_s=1)

    made = cluster(2)
    made.run(scenario)
    with pytest.raises(RuntimeError, match="one scenario"):
        made.run(scenario)
    with pytest.raises(reconvene.Rejected, match="each name once"):
        cluster("aba")

    async def nested() -> None:
        cluster(1).run(scenario)

    with pytest.raises(RuntimeError, match="in an ordinary function"):
        asyncio.run(nested())
    with pytest.raises(reconvene.Malformed, match=r"log.retain_byte: unknown key; did you mean retain_bytes"):
        cluster(1, settings={"log": {"retain_byte": 1}})


# -- the same from the same seed


async def chaos(net: Cluster) -> list[object]:
    """Everything that can happen, to programs that append and follow."""
    told: list[str] = []
    for name in net.names:
        others = [net.address(other) for other in net.names if other != name]
        net.spawn(name, teller, [net.address(name), *others], told)
    for _ in range(10):
        await asyncio.sleep(random.uniform(0.2, 3))
        name = random.choice(net.names)
        match random.randrange(6):
            case 0:
                net.partition([[name]])
            case 1:
                net.heal()
            case 2 if net.state(name) == "up":
                net.crash(name)
            case 3 if net.state(name) == "up":
                net.pause(name)
            case 4:
                net.fill_disk(name)
            case _:
                net.network(loss=random.choice([0, 0.1]), reorder=0.1)
        for other in net.names:
            if other != name:
                net.mend_disk(other)
                if net.state(other) == "down":
                    await net.restart(other)
                elif net.state(other) == "paused":
                    net.resume(other)
    await net.repair()
    async with net.connect("a") as site:
        await site.log.barrier()
        return [told, [(entry.id, entry.data) for entry in await site.log.read()]]


def digest(seed: int) -> str:
    from hashlib import sha256

    made = Cluster("abc", seed=seed)
    outcome = repr(made.run(chaos))
    files = b"".join(path.read_bytes() for path in sorted(made.trace_dir.iterdir()))
    return sha256(outcome.encode() + files).hexdigest()


def test_the_same_seed_gives_the_same_run_in_every_process() -> None:
    program = "import sys; from tests.testing.test_cluster import digest; print(digest(5))"
    root = Path(__file__).parents[2]
    here = digest(5)
    for hash_seed in ("0", "12345"):
        out = subprocess.run(
            [sys.executable, "-c", program], cwd=root, env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert out.strip() == here


@pytest.mark.parametrize("seed", range(3))
def test_chaos(seed: int) -> None:
    _, entries = Cluster("abc", seed=seed).run(chaos)
    assert isinstance(entries, list)
    assert len({entry for entry, _ in entries}) == len(entries)


def test_the_plugin_is_cheap_to_import() -> None:
    program = (
        "import sys, reconvene.testing.plugin;"
        "print([m for m in sys.modules if m.startswith(('reconvene.', 'msgspec', 'rich', 'typer'))])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['reconvene.testing', 'reconvene.testing.plugin']"


def test_the_example_in_the_docstring() -> None:
    import doctest

    import reconvene.testing.cluster as module

    assert doctest.testmod(module) == (0, 3)


def test_global_randomness_is_the_seeds_during_the_run_and_the_callers_after_it(cluster: Make) -> None:
    async def scenario(net: Cluster) -> Any:
        return random.random()

    random.seed(1)
    expected = random.Random(1).random()
    first = cluster(1, seed=9).run(scenario)
    assert random.random() == expected
    assert cluster(1, seed=9).run(scenario) == first
