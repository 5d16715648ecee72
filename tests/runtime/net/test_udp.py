"""Datagrams reach their receivers, and only members' datagrams are accepted."""

import asyncio
import gc
import socket
from pathlib import Path

import msgspec
import pytest
from tests.runtime.net.transports import LOOPS, Net, Node, drops, run, until

from reconvene.errors import Rejected, Unavailable
from reconvene.runtime.access.key_files import load_cluster_keys, write_cluster_key
from reconvene.runtime.config.settings import Seal, TransportSettings
from reconvene.runtime.outside import Transport as Port

INSECURE = Seal(insecure=True)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("seal", ["sealed", "insecure"])
def test_datagrams_arrive_whole_and_in_order(tmp_path: Path, loop: str, seal: str) -> None:
    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            a, b, c = await net.up(**({} if seal == "sealed" else {"seal": INSECURE}))
            port: Port = a.udp
            sent = [b"%d" % number * (1 + number * 700) for number in range(40)]
            port.send([((1, 2), data) for data in sent])
            port.send([((2,), b"only c"), ((), b"nobody")])
            await until(lambda: len(b.got) == 40 and len(c.got) == 41)
            assert b.got == sent
            assert c.got == [*sent, b"only c"]
            assert a.got == []
            b.udp.send([((0,), b"back")])
            await until(lambda: a.got == [b"back"])
            assert [drops(node) for node in (a, b, c)] == [{}, {}, {}]
            assert a.count("sent_datagrams") >= 81
            assert b.count("received_datagrams") >= 40
            assert b.count("received_bytes") > sum(map(len, sent))

    run(work(), loop)


def test_a_turn_is_one_list_of_bounded_length(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up(transport=TransportSettings(turn_datagrams=16))
            a.udp.send([((1,), b"%d" % number) for number in range(50)])
            await until(lambda: len(b.got) == 50)
            assert [len(turn) for turn in b.turns] == [16, 16, 16, 2]

    run(work())


def test_what_the_system_does_not_take_is_counted(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            a.udp.send([((1,), bytes(70_000)), ((1,), b"small")])
            await until(lambda: b.got == [b"small"])
            assert drops(a) == {"dropped_send": 1}
            (line,) = a.lines.of("dropped_send")
            assert line["to"] == f"127.0.0.1:{b.address[1]}"
            assert "Message too long" in line["why"]

    run(work())


def test_a_full_send_buffer_drops_and_never_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, _ = await net.up()

            class Full:
                def sendto(self, data: bytes, address: object) -> int:
                    raise BlockingIOError(11, "full")

            monkeypatch.setattr(a.udp, "_socket", Full())
            a.udp.send([((1,), b"x")] * 3)
            assert drops(a) == {"dropped_send": 3}
            assert len(a.lines.of("dropped_send")) == 1

    run(work())


def test_blocked_sites(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            a, b, c = await net.up()
            b.udp.block(frozenset({0}), frozenset())
            a.udp.block(frozenset(), frozenset({2}))
            a.udp.send([((1, 2), b"x")])
            c.udp.send([((0, 1), b"y")])
            b.udp.send([((0,), b"z")])
            await until(lambda: len(a.got) == 2 and len(b.got) == 1 and b.count("dropped_blocked") == 1)
            assert sorted(a.got) == [b"y", b"z"]
            assert b.got == [b"y"]
            assert drops(a) == {"dropped_blocked": 1}
            for node in (a, b):
                node.udp.block(frozenset(), frozenset())
            a.udp.send([((1, 2), b"x")])
            await until(lambda: b.got == [b"y", b"x"] and c.got == [b"x"])

    run(work())


def test_a_site_that_starts_behind_a_block_gets_in_when_it_ends(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = net.node("a"), net.node("b")
            a.udp.block(frozenset({1}), frozenset({1}))
            a.start()
            b.start()
            b.udp.send([((0,), b"early")] * 3)
            await until(lambda: a.count("dropped_blocked") > 3)
            assert a.got == []
            assert not a.knows(1)
            assert not b.knows(0)
            a.udp.block(frozenset(), frozenset())
            await talk_until_heard(b, a)

    run(work())


async def talk_until_heard(speaker: Node, listener: Node) -> None:
    """Sends repeatedly, as a core does."""
    for _ in range(500):
        speaker.udp.send([((listener.config.names.index(listener.config.name),), b"here I am")])
        await asyncio.sleep(0.01)
        if listener.got:
            return
    raise AssertionError("never heard")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_lost_challenge_is_asked_again(tmp_path: Path, loop: str) -> None:
    """b sends no challenge when it starts: later its own and its peer's datagrams cause them."""

    async def work() -> None:
        with Net.of(tmp_path) as net:
            a = net.node("a")
            a.start()
            b = net.node("b")
            b.sessions.greet = lambda: None  # type: ignore[method-assign]
            b.start()
            await talk_until_heard(b, a)
            await talk_until_heard(a, b)
            assert a.count("dropped_unverified") >= 1
            assert a.lines.of("dropped_unverified")[0]["source"] == f"127.0.0.1:{b.address[1]}"

    run(work(), loop)


@pytest.mark.parametrize(
    ("stranger", "there", "here", "says"),
    [
        ("key", "dropped_unknown_key", "dropped_unknown_key", "sealed with key"),
        ("cluster", "dropped_foreign_cluster", "dropped_foreign_cluster", "of a cluster with another name"),
        ("insecure", "dropped_unsealed", "dropped_sealed", "sealed"),
        ("version", "dropped_version", "dropped_version", "speaks wire version"),
        ("sites", "dropped_other_sites", "dropped_other_sites", "lists other sites"),
    ],
)
def test_a_stranger_never_gets_in_and_both_logs_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stranger: str, there: str, here: str, says: str
) -> None:
    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            a = net.node("a")
            a.start()
            changes: dict[str, object] = {}
            if stranger == "key":
                write_cluster_key(tmp_path / "other")
                changes["seal"] = Seal(keys=(tmp_path / "other",))
            elif stranger == "cluster":
                changes["cluster"] = "ship"
            elif stranger == "insecure":
                changes["seal"] = INSECURE
            elif stranger == "sites":
                changes["sites"] = {"a": net.sites["a"], "b": net.sites["b"], "d": net.sites["c"]}
            elif stranger == "version":
                with monkeypatch.context() as patch:
                    patch.setattr("reconvene.wire.seal.MAJOR", 2)
                    b = net.node("b")
            if stranger != "version":
                b = net.node("b", **changes)
            b.start()
            for _ in range(20):
                b.udp.send([((0,), b"let me in")])
                a.udp.send([((1,), b"from a")])
                await asyncio.sleep(0.005)
            await until(lambda: a.count(there) > 0)
            assert a.got == []
            if stranger != "version":  # both are in one process, so both decode with the same version
                assert b.got == []
                await until(lambda: b.count(here) > 0)
                told = [(a, b, there), (b, a, here)]
            else:
                assert a.lines.of(there)[0]["why"] == "speaks wire version 2, this site 1"
                told = [(a, b, there)]
            for node, other, event in told:
                lines = node.lines.of(event)
                assert len(lines) == 1, "once a minute and source, however many come"
                assert lines[0]["source"] == f"127.0.0.1:{other.address[1]}"
                assert says in lines[0]["why"]

    run(work())


def test_another_minor_version_works_with_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            with monkeypatch.context() as patch:
                patch.setattr("reconvene.wire.seal.MINOR", 9)
                a = net.node("a")
            b = net.node("b")
            a.start()
            b.start()
            await until(lambda: a.knows(1) and b.knows(0))
            a.udp.send([((1,), b"new")])
            b.udp.send([((0,), b"old")])
            await until(lambda: (a.got, b.got) == ([b"old"], [b"new"]))

    run(work())


def test_a_site_that_restarts_is_known_again_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            b.udp.send([((0,), b"before")])
            await until(lambda: a.got == [b"before"])
            b.udp.close()
            again = net.node("b")
            again.start()
            await until(lambda: again.knows(0) and a.count("sessions") == 2)
            again.udp.send([((0,), b"after")])
            a.udp.send([((1,), b"to the new one")])
            await until(lambda: a.got == [b"before", b"after"] and again.got == [b"to the new one"])
            assert drops(a) == {}

    run(work())


def test_keys_are_rotated_under_traffic_without_a_loss(tmp_path: Path) -> None:
    """The new key is second everywhere, then first everywhere, then alone; the sites change at different times."""

    async def work() -> None:
        with Net.of(tmp_path, 3) as net:
            nodes = await net.up()
            write_cluster_key(tmp_path / "new")
            old, new = load_cluster_keys([net.key_file, tmp_path / "new"])
            counts = [0] * 3

            async def traffic() -> None:
                while True:
                    for ordinal, node in enumerate(nodes):
                        others = tuple({0, 1, 2} - {ordinal})
                        node.udp.send([(others, b"%d:%d" % (ordinal, counts[ordinal]))])
                        counts[ordinal] += 1
                    await asyncio.sleep(0)

            task = asyncio.get_running_loop().create_task(traffic())
            for keys in ([old, new], [new, old], [new]):
                for node in nodes:
                    await asyncio.sleep(0.02)
                    node.udp.reload_keys(keys)
                await asyncio.sleep(0.02)
            task.cancel()
            assert min(counts) > 100
            await until(lambda: all(len(node.got) == sum(counts) - counts[i] for i, node in enumerate(nodes)))
            for ordinal, node in enumerate(nodes):
                for other in {0, 1, 2} - {ordinal}:
                    theirs = [data for data in node.got if data.startswith(b"%d:" % other)]
                    assert theirs == [b"%d:%d" % (other, number) for number in range(counts[other])]
                assert drops(node) == {}
                assert node.count("sessions") == 2, "a session outlives a key"
                assert len(node.sessions._ways) == 2

    run(work())


def test_a_key_that_was_dropped_opens_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        with Net.of(tmp_path) as net:
            a, b = await net.up()
            write_cluster_key(tmp_path / "new")
            a.udp.reload_keys(load_cluster_keys([tmp_path / "new"]))
            b.udp.send([((0,), b"late")])
            await until(lambda: a.count("dropped_unknown_key") == 1)
            with pytest.raises(Rejected, match=r"seal\.keys"):
                a.udp.reload_keys([])

    run(work())


def test_closing_twice_and_never_started(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        node = net.node("a")
        node.udp.close()
        node.udp.close()
        again = net.node("a")
        assert again.udp.frame_bytes == 60_000


def test_no_socket_is_left_where_it_can_not_start(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        bad = TransportSettings(kind="multicast", group=("10.0.0.1", 7000))
        with pytest.raises(Rejected, match=r"transport\.group"):
            net.node("a", transport=bad)
        net.node("a")
        gc.collect()


def test_a_port_in_use(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        net.node("a")
        where = f"127.0.0.1:{net.sites['a'][1]}"
        with pytest.raises(Unavailable, match=rf"^sites\.a: {where}: in use by another process"):
            net.node("a")


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        (("192.0.2.1", 7001), Rejected, "not an address of this machine"),
        (("no-such-host.invalid", 7001), Rejected, "no such host"),
        (("999.1.1.1", 7001), Rejected, "no such host"),
    ],
)
def test_an_address_that_is_not_ours(
    tmp_path: Path, address: tuple[str, int], error: type[Exception], says: str
) -> None:
    with Net.of(tmp_path) as net:
        net.sites["a"] = address
        with pytest.raises(error, match=says) as caught:
            net.node("a")
        assert "\n" not in str(caught.value)


def test_a_peer_without_an_address(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        net.sites["b"] = ("no-such-host.invalid", 7001)
        with pytest.raises(Unavailable, match=r"sites\.b: no-such-host\.invalid"):
            net.node("a")


def test_no_key_is_no_transport(tmp_path: Path) -> None:
    with Net.of(tmp_path) as net:
        with pytest.raises(Rejected, match=r"seal\.keys: expected a key file"):
            net.node("a", seal=Seal())
        with pytest.raises(Rejected, match="no such key file"):
            net.node("a", seal=Seal(keys=(tmp_path / "none",)))
        with pytest.raises(Rejected, match=r"transport\.kind"):
            net.node("a", transport=msgspec.structs.replace(TransportSettings(), kind="carrier pigeon"))
        node = net.node("a", seal=INSECURE)
        assert node.lines.of("insecure")
        with pytest.raises(Rejected, match="switched on or off"):
            node.udp.reload_keys([net.key])


def test_ipv6(tmp_path: Path) -> None:
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")

    async def work() -> None:
        with Net.of(tmp_path) as net:
            net.sites = {name: ("::1", port) for name, (_, port) in net.sites.items()}
            a, b = await net.up()
            a.udp.send([((1,), b"six")])
            await until(lambda: b.got == [b"six"])
            assert a.udp.frame_bytes == 60_000

    run(work())


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True
