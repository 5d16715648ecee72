"""Rules that differ between a cluster's gateways, as one site of the cluster sees it."""

import pytest

from reconvene.core.effects import Changed, ConfKind, Delivered
from reconvene.domains.messages import Line, Port, decode, encode
from reconvene.domains.port import Site
from reconvene.domains.rules import rules_of
from reconvene.domains.tree import Domain, Tree
from reconvene.ids import Service

SITES = ("a", "b", "c")
PARIS = Domain("paris", ("p",), ("p",))


def tree(
    gateways: tuple[str, ...] = ("a", "b"), out: tuple[str, ...] = ("*",), sites: tuple[str, ...] = SITES
) -> Tree:
    return Tree([Domain("berlin", sites, gateways, out), PARIS])


OTHERS = {
    "out": tree(out=("bank",)),
    "gateways": tree(("b", "a")),
    "upper": tree(("b",)),
    "sites": tree(sites=("a", "b", "c", "d")),
}


class Cluster:
    """Berlin as its site c delivers it: gateways a and b, each with a tree of its own."""

    def __init__(self, a: Tree, b: Tree, c: Tree) -> None:
        self.site = Site(c, "berlin", 2, 1)
        self.trees = {"a": a, "b": b}
        self.count = 0
        self.site.take([Changed(ConfKind.REGULAR, "65536", (0, 1, 2))])
        line = self.site.next()
        assert line is not None
        self.deliver(2, line.payload)
        told = decode(line.payload)
        assert isinstance(told, Line)
        for ordinal in (0, 1):
            self.deliver(ordinal, encode(Line([ordinal], [ordinal], "", 0, [0], [], [], [], [], [])))

    def deliver(self, sender: int, payload: bytes) -> None:
        self.count += 1
        self.site.take([Delivered("65536", sender, 1, Service.AGREED, 1, [payload], (65536, 0, self.count))])

    def port(self, name: str, *, domains: tuple[str, ...] = ("berlin",), number: int = 65536) -> None:
        own = self.trees[name]
        rank = own.domains["berlin"].gateways.index(name)
        port = Port(number, list(domains), False, rank, rules_of(own, "berlin"))
        self.deliver(SITES.index(name), encode(port))


@pytest.mark.parametrize("what", OTHERS)
def test_a_gateway_with_other_rules_is_never_elected(what: str) -> None:
    cluster = Cluster(tree(), OTHERS[what], tree())
    cluster.port("b", domains=("berlin", "paris"))
    cluster.port("a")
    site = cluster.site
    assert site.representative == "a", "though b sees more clusters"
    assert set(site.refused) == {"b"}
    assert what in site.refused["b"]
    assert site.malformed == 1
    cluster.port("b", domains=("berlin", "paris"), number=131072)
    assert (site.representative, site.term, site.malformed) == ("a", 1, 2)
    cluster.trees["b"] = tree()
    cluster.port("b", domains=("berlin", "paris"), number=131072)
    assert (site.representative, site.refused) == ("b", {}), "as soon as its rules are right"


@pytest.mark.parametrize("what", OTHERS)
def test_a_site_with_other_rules_elects_as_the_others_do_and_finds_itself_refused(what: str) -> None:
    cluster = Cluster(tree(), tree(), OTHERS[what])
    cluster.port("b", domains=("berlin", "paris"))
    assert cluster.site.representative is None, "it waits for every gateway, whatever its own list says"
    cluster.port("a")
    assert cluster.site.representative == "b"
    assert set(cluster.site.refused) == {"c"}
    assert what in cluster.site.refused["c"]


def test_a_site_that_is_no_gateway_can_not_say_that_it_is() -> None:
    cluster = Cluster(tree(), tree(), tree())
    for rank in (0, 2):
        cluster.deliver(2, encode(Port(65536, ["berlin"], False, rank, rules_of(tree(), "berlin"))))
    assert cluster.site.malformed == 2
    assert cluster.site.meeting.ports == {}
