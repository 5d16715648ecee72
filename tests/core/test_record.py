"""What a site stores of the configurations that it answers for: above `line`, none was used while it was in it."""

from msgspec import Struct, msgpack

from reconvene.core.effects import Effects
from reconvene.core.outgoing import Outgoing
from reconvene.core.record import Kept, Record, boot, replacement
from reconvene.site_list import SiteList, first_list, read_list

ME = 0
THREE = first_list(3, "abc")


class Running:
    """A site's record, in one incarnation."""

    def __init__(self, stored: bytes | None, sites: SiteList = THREE) -> None:
        self.disk = boot(stored, ME, 1, sites)
        self._out = Outgoing()
        self.kept = Kept(msgpack.decode(self.disk, type=Record), 3, self._out)

    def sync(self) -> Record:
        effects = Effects()
        self._out.move_to(effects)
        for persist in effects.persist:
            self.disk = persist.value
            self.kept.synced(persist.token)
        return msgpack.decode(self.disk, type=Record)

    def begin(self, number: int, *members: int) -> int:
        """Returns the line as it is stored when the site answers."""
        self.kept.begin(number, members)
        return self.sync().line

    def install(self, number: int, *members: int, agreed: SiteList | None = None) -> None:
        self.kept.install(number, members, agreed or self.kept.sites)


def used(stored: bytes | None = None, number: int = 100) -> Running:
    """A site that was in a used configuration."""
    site = Running(stored)
    site.begin(number, 0, 1, 2)
    site.install(number, 0, 1, 2)
    site.kept.used(1, number)
    site.sync()
    return site


def test_a_configuration_that_can_be_used_is_stored_before_it_is_answered() -> None:
    site = Running(None)
    assert site.begin(100, 0, 1) == 100
    assert site.begin(200, 0, 1, 2) == 200


def test_a_minority_is_not() -> None:
    site = used()
    assert site.begin(200, 0) == 100
    site.install(200, 0)
    assert Running(site.disk).kept.forgotten == 100


def test_one_that_was_given_up_is_forgotten_with_the_next() -> None:
    site = used()
    assert site.begin(200, 0, 1) == 200
    assert site.begin(300, 0) == 100


def test_one_that_was_installed_is_not() -> None:
    """Others may have used it, though this site did not."""
    site = used()
    site.begin(200, 0, 1)
    site.install(200, 0, 1)
    assert site.begin(300, 0) == 200


def test_starts_alone_change_nothing() -> None:
    site = used()
    for _ in range(3):
        answered, site = site.kept.answered, Running(site.disk)
        assert site.kept.answered > answered
        assert site.kept.forgotten == 100


def test_a_new_site_can_not_tell() -> None:
    """Its directory may have been emptied."""
    assert Running(None).kept.forgotten == 0
    assert Running(Running(None).disk).kept.forgotten == 0


def test_in_this_incarnation_it_says_what_it_knew_when_it_started() -> None:
    site = Running(used().disk)
    site.begin(200, 0, 1)
    site.install(200, 0, 1)
    assert site.kept.forgotten == 100


# -- storage that is not whole


class _Older(Struct, array_like=True):
    """The record of a program that stores no line."""

    incarnation: int
    number: int
    token: int = 0
    sites: SiteList | None = None


def test_after_an_older_program_it_can_not_tell_until_it_was_in_a_used_one() -> None:
    """An older program reads the record, and leaves out what it does not know."""
    older = msgpack.encode(msgpack.decode(used().disk, type=_Older))
    site = Running(older)
    assert site.kept.forgotten == 0
    site.begin(200, 0, 1, 2)
    site.install(200, 0, 1, 2)
    assert Running(site.disk).kept.forgotten == 0, "it was not used"
    site.kept.used(1, 200)
    site.sync()
    assert Running(site.disk).kept.forgotten == 200


def test_replaced_storage_is_not_whole_either() -> None:
    site = Running(replacement(3, 150, THREE))
    site.begin(200, 0, 1, 2)
    assert Running(site.disk).kept.forgotten == 0


def test_it_is_whole_only_with_what_it_answers_for_meanwhile() -> None:
    """That 200 is used is heard when the site has answered for 300, and when it has installed 300."""
    for installed in (False, True):
        site = Running(replacement(3, 150, THREE))
        site.begin(200, 0, 1, 2)
        site.install(200, 0, 1, 2)
        site.begin(300, 0, 1)
        if installed:
            site.install(300, 0, 1)
        site.kept.used(1, 200)
        site.sync()
        assert Running(site.disk).kept.forgotten == 300


# -- the list of sites changes


def test_a_version_that_makes_it_primary_is_stored_with_it() -> None:
    """This site knows version 1, of three. Sites 0 and 3 are version 2, which 3 knows to be the base. Nobody uses the
    configuration before this site has stored both: its table waits for that."""
    site = used()
    later = SiteList(("a", "b", "c", "d"), {2: 0b1001}, 2, since=150)
    assert site.begin(200, 0, 3) == 100
    site.install(200, 0, 3, agreed=THREE.merged(later))
    assert not site.kept.list_durable
    assert site.sync().line == 200
    assert site.kept.list_durable


def test_a_base_that_moves_on_among_known_versions_is_foreseen() -> None:
    """Versions 1 and 2 count here. 1 does not any more, another member knows."""
    site = Running(None, SiteList(("a", "b", "c", "d"), {1: 0b0111, 2: 0b1001}, 1))
    assert not site.kept.sites.primary((0, 3))
    assert site.begin(200, 0, 3) == 200


def test_a_version_that_it_gets_with_a_start_counts_at_once() -> None:
    stored = used().disk
    listed = read_list(THREE, 2, ["a", "d"])
    assert Running(stored, listed).begin(200, 0, 3) == 200
    assert Running(stored, listed).begin(200, 0, 1) == 100


def test_where_it_is_the_only_site_it_can_be_used_from_its_start_on() -> None:
    site = Running(None, first_list(1, "a"))
    assert site.kept.forgotten == site.kept.answered
