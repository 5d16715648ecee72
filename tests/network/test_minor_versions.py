"""Sites are restarted one after the other into another minor version of the wire, and back, and nothing is lost."""

from pathlib import Path

from tests.network import variant
from tests.network.load import Load
from tests.network.sites import NODE, RealSites, until

NEXT_MINOR = (variant.__file__, "minor")


def restart(sites: RealSites, load: Load, name: str, program: tuple[str, ...]) -> None:
    """One site, while the clients of the others go on: all that was accepted meanwhile reaches these."""
    others = [other for other in sites.names if other != name]
    load.until_moved(messages=10)
    before = {client.name: len(client.accepted) for client in load.clients.values()}
    rejoins = {client.name: len(client.rejoined) for client in load.clients.values()}
    sites.leave(name)
    # What its site took before it left counts; what it takes when it is back, and alone, is another matter.
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


def test_a_rolling_restart_up_and_down(tmp_path: Path) -> None:
    with RealSites(tmp_path, "abc") as sites:
        sites.start()
        sites.wait_for()
        with Load(sites.sockets) as load:
            for program, minor in ((NEXT_MINOR, 1), (NODE, 0)):
                for name in sites.names:
                    restart(sites, load, name, program)
                    other = "a" if name != "a" else "b"
                    assert f"minor={minor}" in sites.lines(other, " session ", f"site={name}")[-1]
            load.hold()
        assert not load.trouble
        for name in sites.names:
            assert sites.counter(name, "malformed") == 0
        sites.judge()
