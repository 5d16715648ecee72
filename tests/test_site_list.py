"""The versions of the cluster's list: what a site knows of them, and that there are never two primary components at
once.

The property is tested on a model without datagrams: components form, store what they know, are used and break up in
any order, and sites crash and start with newer lists. Planted bugs show that the test can fail.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from reconvene.errors import Rejected
from reconvene.site_list import MAX_PENDING, SiteList, read_list

NAMES = tuple("abcdef")


# -- what a site reads when it starts


def known(*lists: str, base: int = 1) -> SiteList:
    """Versions from 1 on, each as a string of names."""
    masks = {
        version: sum(1 << NAMES.index(name) for name in names)
        for version, names in enumerate(lists, 1)
        if version >= base
    }
    return SiteList(NAMES[: max(mask.bit_length() for mask in masks.values())], masks, base)


def test_a_new_site_knows_its_file() -> None:
    first = read_list(None, 1, ["c", "a", "b"])
    assert (first.names, first.lists, first.base) == (("a", "b", "c"), {1: 0b111}, 1)
    assert first.finished
    assert first.primary((0, 2))
    assert not first.primary((0,))


def test_a_new_site_of_a_later_version_has_to_learn_what_was_before() -> None:
    later = read_list(None, 2, ["a", "b", "c"])
    assert later.base == 0
    assert not later.primary((0, 1, 2)), "an older list may have another majority"
    assert later.merged(known("abcde", "abc")).primary((0, 1, 2))
    assert not later.merged(known("abcde", "abc")).primary((0, 1))


def test_removed_sites_keep_their_numbers_and_added_ones_get_the_next() -> None:
    stored = read_list(None, 1, ["b", "d", "f"])
    changed = read_list(stored, 2, ["a", "d", "f", "e"])
    assert changed.names == ("b", "d", "f", "a", "e")
    assert changed.sites(2) == ("a", "d", "e", "f")
    assert changed.sites(1) == ("b", "d", "f")
    assert (changed.newest, changed.base, changed.finished) == (2, 1, False)


def test_the_older_of_two_files_changes_nothing() -> None:
    stored = read_list(read_list(None, 1, ["a", "b", "c"]), 2, ["a", "b"]).used(2, 9)
    assert read_list(stored, 1, ["a", "b", "c"]) == stored


@pytest.mark.parametrize(
    ("version", "sites", "numbers", "says"),
    [
        (1, "abd", (), "version 1 of the list is a b c as this site has stored it, and a b d in the file"),
        (2, "abcd", tuple("abdc"), "numbers: this site has numbered the sites a b c: numbers never change"),
        (3, "abcd", (), "knows version 1 of the list, and the file has version 3: which numbers d have"),
        (2, [f"x{n}" for n in range(62)], (), "at most 64 names"),
    ],
)
def test_what_contradicts_the_record_is_refused(
    version: int, sites: str, numbers: tuple[str, ...], says: str
) -> None:
    with pytest.raises(Rejected, match=says) as refused:
        read_list(known("abc"), version, sites, numbers)
    assert "\n" not in str(refused.value)


def test_a_version_can_be_skipped_where_the_numbers_are_told() -> None:
    assert read_list(known("abc"), 3, "abcd", tuple("abcd")).lists == {1: 0b111, 3: 0b1111}
    assert read_list(known("abc"), 3, "ab").lists == {1: 0b111, 3: 0b11}, "nobody is new"


def test_a_site_that_never_met_the_cluster_takes_other_numbers() -> None:
    alone = read_list(None, 2, ["a", "b", "d"])
    assert read_list(alone, 2, ["a", "b", "d"], ["a", "b", "c", "d"]).names == ("a", "b", "c", "d")


def test_changes_that_never_finish_have_a_limit() -> None:
    sites = known("abc")
    for version in range(2, MAX_PENDING + 1):
        sites = read_list(sites, version, "ab")
    with pytest.raises(Rejected, match="at most 15 changes"):
        read_list(sites, MAX_PENDING + 1, "ab")


def test_one_version_with_two_lists_differs() -> None:
    assert known("abcde", "abc").differs(known("abcde", "abd")) == (2, ("a", "b", "d"))
    assert known("abcde", "abc").differs(known("abcde")) is None
    assert known("abcde").differs(known("abc")) == (1, ("a", "b", "c"))
    assert known("abcde").differs(replace(known("abcde"), names=("a", "b", "d"))) == (0, ("a", "b", "d"))


def test_a_dispute_stops_only_a_list_that_was_never_used() -> None:
    disputed = replace(known("abc"), disputed=True)
    assert not disputed.primary((0, 1, 2))
    assert disputed.used(1, 7).primary((0, 1, 2))


def test_what_is_told_is_what_is_read() -> None:
    sites = known("abcde", "abc").used(2, 5)
    assert msgpack.decode(msgpack.encode(sites), type=SiteList) == sites
    assert sites.sound()
    for unsound in (
        replace(sites, lists={}),
        replace(sites, base=1),
        replace(sites, names=("a", "a", "b", "c", "d")),
        replace(sites, lists={2: 1 << 9}),
    ):
        assert not unsound.sound()


# -- one primary component, whatever happens


@dataclass
class Component:
    number: int
    members: tuple[int, ...]
    known: SiteList
    stored: set[int] = field(default_factory=set)


@dataclass
class Model:
    """Sites that follow the part of the protocol that concerns the list."""

    random: Random
    primary: Callable[..., bool]
    """`SiteList.primary`, or a planted bug."""

    def __post_init__(self) -> None:
        self.eager = self.random.choice((0.3, 0.5, 0.8))
        """How often a site that restarts gets the newest file."""
        self.versions = {1: self._some(3, 5)}
        self.files = [1] * len(NAMES)
        self.disks = [self._read(site, None) for site in range(len(NAMES))]
        self.current: list[Component | None] = [None] * len(NAMES)
        self.components: list[Component] = []
        self.used: dict[int, tuple[int, ...]] = {}

    def _some(self, least: int, most: int) -> int:
        return sum(1 << site for site in self.random.sample(range(len(NAMES)), self.random.randint(least, most)))

    def _read(self, site: int, stored: SiteList | None) -> SiteList:
        version = self.files[site]
        names = [name for number, name in enumerate(NAMES) if self.versions[version] >> number & 1]
        return read_list(stored, version, names, NAMES)

    def step(self) -> None:
        acts = (self.form, self.store, self.use, self.restart, self.change)
        self.random.choices(acts, (6, 12, 18, 3, 1))[0]()

    def form(self) -> None:
        members = tuple(sorted(self.random.sample(range(len(NAMES)), self.random.randint(1, len(NAMES)))))
        together = self.disks[members[0]]
        for site in members[1:]:
            together = together.merged(self.disks[site])
        component = Component(len(self.components) + 1, members, together)
        self.components.append(component)
        for site in members:
            self.current[site] = component

    def store(self) -> None:
        component = self.random.choice(self.current)
        if component is None:
            return
        for site in component.members:
            if self.current[site] is component and self.random.random() < 0.8:
                self.disks[site] = self.disks[site].merged(component.known)
                component.stored.add(site)

    def use(self) -> None:
        """One member learns that its component is used, perhaps long after the others have continued."""
        site = self.random.randrange(len(NAMES))
        component = self.current[site]
        if component is None or component.stored != set(component.members):
            return
        if self.primary(component.known, component.members):
            self.used[component.number] = component.members
            self.disks[site] = self.disks[site].used(component.known.newest, component.number)

    def restart(self) -> None:
        site = self.random.randrange(len(NAMES))
        self.current[site] = None
        newest = max(self.versions)
        if self.random.random() < self.eager and len(self.disks[site].lists) < 8:
            self.files[site] = newest
        self.disks[site] = self._read(site, self.disks[site])

    def change(self) -> None:
        self.versions[max(self.versions) + 1] = self._some(1, 5)

    def disjoint(self) -> list[tuple[int, int]]:
        """Components that were used one after the other and share no site: two that could both continue."""
        numbers = sorted(self.used)
        return [(one, two) for one, two in pairwise(numbers) if not set(self.used[one]) & set(self.used[two])]


def run(seed: int, primary: Callable[..., bool] = SiteList.primary) -> Model:
    model = Model(Random(seed), primary)
    for _ in range(600):
        model.step()
    return model


def test_two_components_are_never_primary_at_once() -> None:
    used = finished = 0
    for seed in range(150):
        model = run(seed)
        assert not model.disjoint(), seed
        used += len(model.used)
        finished += max(disk.base for disk in model.disks) > 1
    assert used > 1_000, "the property says nothing of runs in which nothing happens"
    assert finished > 50


def _only_the_newest(sites: SiteList, members: tuple[int, ...]) -> bool:
    return replace(sites, lists={sites.newest: sites.lists[sites.newest]}).primary(members)


def _only_the_base(sites: SiteList, members: tuple[int, ...]) -> bool:
    return replace(sites, lists={sites.base: sites.lists[sites.base]}).primary(members)


@pytest.mark.parametrize(
    ("planted", "first"),
    [(_only_the_newest, 100), (_only_the_base, 26)],
    ids=["the older lists are ignored", "the newer lists are ignored"],
)
def test_a_planted_bug_gives_two_primary_components(planted: Callable[..., bool], first: int) -> None:
    """`first`: the search starts at a seed that is known to show the bug."""
    assert any(run(seed, planted).disjoint() for seed in range(first, first + 100))


def test_why_all_members_have_to_store_a_version_before_it_is_the_base() -> None:
    """a b c become c d e. Together, b, c and d hold both majorities."""
    forming = known("abc", "cde")
    finished = forming.used(2, 7)
    assert forming.primary((1, 2, 3))
    assert finished.primary((3, 4)), "d and e can go on by themselves, once they know"
    assert known("abc").primary((0, 1)), "so would a and b, if b had not stored the new version"
    assert not known("abc").merged(forming).primary((0, 1))
