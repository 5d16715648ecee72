"""Scenarios of two clusters, berlin and paris, whose processes cast within them and between them."""

from collections.abc import Iterable

__all__ = ["load", "process", "step", "two_clusters"]


def two_clusters(top: str, berlin: str = "abc", gateways: str = "a") -> str:
    """`top`: the keys at the top and the tables of the network. Paris has the sites p and q, and the gateway p."""
    return f"""
name = "far"
stack = "wide"
isis = true
{top}
[[domain]]
name = "berlin"
nodes = {list(berlin)}
gateways = {list(gateways)}
[[domain]]
name = "paris"
nodes = ["p", "q"]
gateways = ["p"]
"""


def process(name: str, *groups: str) -> str:
    """`name`: as in steps, such as berlin/a.x."""
    node, _, own = name.partition(".")
    return f'[[process]]\nnode = "{node}"\nname = "{own}"\n' + (f"groups = {list(groups)}\n" if groups else "")


def load(processes: Iterable[str], cast: str, rate: int, until: str = "3s", *keys: str) -> str:
    """Casts to the group `bank`, from 1 s on. `keys`: further lines."""
    lines = (f"processes = {list(processes)}", f'cast = "{cast}"', 'to = "bank"', f"rate = {rate}", *keys)
    return "\n".join(("[[load]]", *lines, 'from = "1s"', f'until = "{until}"', ""))


def step(time: str, verb: str) -> str:
    return f'[[at]]\ntime = "{time}"\n{verb}\n'
