"""Sites are restarted one by one into another minor version of the wire, and back. Nothing is lost."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.network import variant
from tests.network.load import Load
from tests.network.sites import NODE, RealSites, until

from reconvene.wire.codec import decode, encode
from reconvene.wire.messages import Nack
from reconvene.wire.seal import MINOR

NEXT_MINOR = (variant.__file__, "minor")


NACK = "from reconvene.wire.codec import decode, encode; from reconvene.wire.messages import Nack"


def run(program: str) -> str:
    folder = Path(variant.__file__).parent
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_next_minor_version() -> None:
    """The version that the other program sends, and the versions that it understands."""
    tell = f"import variant; variant.speak_next_minor(); {NACK}; print(encode(Nack(1, 2, [3])).hex())"
    said = run(tell)
    assert bytes.fromhex(said) == b"\x95" + encode(Nack(1, 2, [3]))[1:] + b"\xb2of a later version"
    assert decode(bytes.fromhex(said)) == Nack(1, 2, [3])
    heard = f"import variant; variant.speak_next_minor(); {NACK}; print(decode({encode(Nack(1, 2, [3]))!r}))"
    assert run(heard) == "Nack(conf=1, sender=2, wants=[3], news='of a later version')"


def restart(sites: RealSites, load: Load, name: str, program: tuple[str, ...]) -> None:
    """Restarts one site while the clients of the others continue: they receive everything accepted meanwhile."""
    others = [other for other in sites.names if other != name]
    load.until_moved(messages=10)
    before = {client.name: len(client.accepted) for client in load.clients.values()}
    rejoins = {client.name: len(client.rejoined) for client in load.clients.values()}
    sites.leave(name)
    # Counts what its site accepted before it left; not what it accepts when it is back and still alone.
    load[name].sending = False
    accepted = load[name].accepted[before[name] :]
    sites.start(name, program=program)
    sites.wait_for()
    load.until_moved(*others, messages=10)
    load.hold()
    for other in others:
        accepted += load[other].accepted[before[other] :]
        assert len(load[other].rejoined) == rejoins[other], "it stayed"
    load.until_delivered(accepted, *others)
    until(lambda: len(load[name].rejoined) == rejoins[name] + 1, f"{name}'s client is back")
    load.go_on()


@pytest.mark.long("a real cluster for ten seconds; test_failover.py has a rolling restart, without other versions")
def test_a_rolling_restart_up_and_down(tmp_path: Path) -> None:
    with RealSites(tmp_path, "abc") as sites:
        sites.start()
        sites.wait_for()
        with Load(sites.sockets) as load:
            for program, minor in ((NEXT_MINOR, MINOR + 1), (NODE, MINOR)):
                for name in sites.names:
                    restart(sites, load, name, program)
                    other = "a" if name != "a" else "b"
                    assert f"minor={minor}" in sites.lines(other, " session ", f"site={name}")[-1]
            load.hold()
        assert not load.trouble
        for name in sites.names:
            assert sites.counter(name, "malformed") == 0
        sites.judge()
