"""The partition into cliques against an oracle that tries every set."""

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from reconvene.core.membership.cliques import component, partition, two_way

quick = settings(max_examples=150, derandomize=True, deadline=None)

SITES = 7
hears = st.dictionaries(st.integers(0, SITES - 1), st.integers(0, 2**SITES - 1), min_size=1)


def bits(mask: int) -> tuple[int, ...]:
    return tuple(site for site in range(64) if mask >> site & 1)


def is_clique(said: dict[int, int], group: tuple[int, ...]) -> bool:
    return all(said[one] >> two & 1 and said[two] >> one & 1 for one, two in combinations(group, 2))


def naive(said: dict[int, int]) -> list[tuple[int, ...]]:
    """The largest clique of what is left, of several the first by name, until nothing is left."""
    left = sorted(said)
    found: list[tuple[int, ...]] = []
    while left:
        size = next(
            n for n in range(len(left), 0, -1) if any(is_clique(said, group) for group in combinations(left, n))
        )
        found.append(next(group for group in combinations(left, size) if is_clique(said, group)))
        left = [site for site in left if site not in found[-1]]
    return found


@quick
@given(hears)
def test_partition_is_that_of_the_oracle(said: dict[int, int]) -> None:
    everyone = sum(1 << site for site in said)
    assert [bits(clique) for clique in partition(two_way(said), everyone)] == naive(said)


@quick
@given(hears)
def test_everyone_is_in_one_clique(said: dict[int, int]) -> None:
    everyone = sum(1 << site for site in said)
    cliques = partition(two_way(said), everyone)
    assert sum(cliques) == everyone
    assert sum(clique.bit_count() for clique in cliques) == everyone.bit_count()
    assert all(is_clique(said, bits(clique)) for clique in cliques)
    sizes = [clique.bit_count() for clique in cliques]
    assert sizes == sorted(sizes, reverse=True)


@quick
@given(hears, st.randoms(use_true_random=False))
def test_the_order_of_the_reports_is_no_matter(said: dict[int, int], random: Random) -> None:
    shuffled = list(said.items())
    random.shuffle(shuffled)
    everyone = sum(1 << site for site in said)
    assert partition(two_way(dict(shuffled)), everyone) == partition(two_way(said), everyone)


@quick
@given(hears)
def test_component_is_what_two_way_links_reach(said: dict[int, int]) -> None:
    graph = two_way(said)
    for site in said:
        reached = {site}
        while more := {other for one in reached for other in bits(graph[one])} - reached:
            reached |= more
        assert set(bits(component(graph, site))) == reached


@quick
@given(hears)
def test_a_component_partitions_as_it_does_among_all(said: dict[int, int]) -> None:
    """A site computes the partition of its own component only; it must be part of everyone's."""
    graph = two_way(said)
    whole = partition(graph, sum(1 << site for site in said))
    for site in said:
        own = component(graph, site)
        assert partition(graph, own) == [clique for clique in whole if clique & own]


def test_a_chain_ends_in_pairs() -> None:
    chain = {0: 0b0011, 1: 0b0111, 2: 0b1110, 3: 0b1100}
    assert [bits(clique) for clique in partition(two_way(chain), 0b1111)] == [(0, 1), (2, 3)]


def test_one_way_hearing_is_no_link() -> None:
    assert [bits(clique) for clique in partition(two_way({0: 0b11, 1: 0b10}), 0b11)] == [(0,), (1,)]


def test_64_sites_of_which_most_hear_each_other_take_bounded_work() -> None:
    """Beyond the budget the best found so far is taken; it is still a partition into cliques."""
    said = {site: (2**64 - 1) & ~(1 << (site ^ 1)) for site in range(64)}
    cliques = partition(two_way(said), 2**64 - 1)
    assert sum(cliques) == 2**64 - 1
    assert all(is_clique(said, bits(clique)) for clique in cliques)
    assert cliques[0].bit_count() == 32
