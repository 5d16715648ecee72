"""Invoices: a program that reads every order once, keeps no storage of its own, and may be killed at any moment.

Service: the durable log, and a cursor in it. Where the program has got to is committed through the log under the name
"invoices". Several copies of the program run; one of them holds the cursor and works, the others wait. If the holder
dies, its lease runs out, and the next copy goes on where the last commit was.

What was not committed comes again: the order that the first copy was working on when it was killed is invoiced by the
second one. So a program like this one makes its work safe to repeat. Here the order's position in the log is the
invoice's number: the second invoice of an order is the same one.

In a minority: the holder is handed nothing once it can't renew its lease, for another copy may have taken over.

Run it: python examples/invoices.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from reconvene import blocking
from reconvene.local import LocalCluster

LEASE_S = 2.0
ORDERS = ["coffee", "tea", "cake", "bread", "soup", "plums"]


def work(name: str, addresses: list[str]) -> None:
    """One copy of the program."""
    with blocking.connect(addresses) as site, site.log.cursor("invoices", lease=LEASE_S, who=name) as cursor:
        for entry in cursor:
            print(f"  {name}: invoice {entry.position} for {entry.data.decode()}", flush=True)
            if name == "first" and entry.data == b"bread":
                sys.stdin.read()  # it is busy with the bread until it is killed
            cursor.commit()


def start(name: str, addresses: list[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, str(Path(__file__)), name, *addresses]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def lines(program: "subprocess.Popen[str]", count: int) -> None:
    assert program.stdout is not None
    for _ in range(count):
        print(program.stdout.readline(), end="")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory) as cluster:
        cluster.start()
        addresses = list(cluster.addresses.values())
        with blocking.connect(addresses) as site:
            site.log.append_many(order.encode() for order in ORDERS).ordered()
            print("the first copy works")
            first = start("first", addresses)
            lines(first, 4)
            print("a second copy waits; the first one is killed")
            second = start("second", addresses)
            first.kill()
            first.communicate()
            lines(second, 3)
            second.kill()
            second.communicate()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1], sys.argv[2:])
    else:
        main()
