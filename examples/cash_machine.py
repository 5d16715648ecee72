"""Cash machines: withdrawals from accounts, at machines that may be cut off from the bank.

Service: the durable log. Where a machine is with the majority, it asks: the withdrawal is appended, and the notes
come out when it has its place in the order and the balance was enough there. Withdrawals of one account at two
machines at the same moment can't both pass.

In a minority: the machine has no way to learn what was withdrawn elsewhere. It looks at a small list of its own,
and gives up to OFFLINE_LIMIT to each card. The withdrawal is appended all the same: that is what posts it when the
network has mended, whatever the balance is by then; an account may end below zero, and then owes a fee.

A machine that is restarted amid a withdrawal must not post it twice. So it numbers its withdrawals in a session of
its own: what the log has under a number is not taken again.

Run it: python examples/cash_machine.py
"""

import tempfile
from contextlib import ExitStack

import msgspec

import reconvene
from reconvene import blocking
from reconvene.local import LocalCluster

OFFLINE_LIMIT = 50
FEE = 5


class Withdrawal(msgspec.Struct, frozen=True):
    account: str
    amount: int
    paid: bool
    """The notes are out already: it has to be posted, whatever the balance is."""


class Bank(reconvene.StateMachine):
    def __init__(self, balances: dict[str, int]) -> None:
        self.balances = balances
        self.refused: list[int] = []
        """Positions of withdrawals for which the balance was too low."""

    def apply(self, entry: reconvene.Entry) -> None:
        asked = msgspec.json.decode(entry.data, type=Withdrawal)
        left = self.balances[asked.account] - asked.amount
        if left >= 0:
            self.balances[asked.account] = left
        elif asked.paid:
            self.balances[asked.account] = left - FEE
        else:
            self.refused.append(entry.position)

    def snapshot(self) -> bytes:
        return msgspec.json.encode((self.balances, self.refused))

    def restore(self, data: bytes) -> None:
        self.balances, self.refused = msgspec.json.decode(data, type=tuple[dict[str, int], list[int]])


class CashMachine:
    """A machine keeps its number and its list on its own disk; here they are its memory."""

    def __init__(self, site: blocking.Site, stack: ExitStack) -> None:
        self.site = site
        self.bank = Bank({"Ada": 100, "Ben": 100})
        self.runner = stack.enter_context(site.log.run(self.bank))
        self.number = 0
        self.given_offline: dict[str, int] = {}
        self.unposted: list[blocking.Receipt] = []

    def withdraw(self, account: str, amount: int) -> str:
        if self.site.health() != "primary":
            return self._withdraw_offline(account, amount)
        position = self._post(Withdrawal(account, amount, paid=False)).ordered()
        self.runner.applied(position)
        if position in self.bank.refused:
            return f"{amount} refused: the balance is {self.bank.balances[account]}"
        return f"{amount} paid out"

    def _withdraw_offline(self, account: str, amount: int) -> str:
        given = self.given_offline.get(account, 0)
        if given + amount > OFFLINE_LIMIT:
            return f"{amount} refused: no more than {OFFLINE_LIMIT} while the bank can't be reached"
        self.given_offline[account] = given + amount
        self.unposted.append(self._post(Withdrawal(account, amount, paid=True)))  # durable before the notes come out
        return f"{amount} paid out, to be posted later"

    def _post(self, withdrawal: Withdrawal) -> blocking.Receipt:
        self.number += 1
        return self._append(withdrawal, self.number)

    def repeat(self, withdrawal: Withdrawal) -> bool:
        """After a restart: the last one again, since nobody knows whether it was posted. Was it?"""
        return self._append(withdrawal, self.number).again

    def _append(self, withdrawal: Withdrawal, number: int) -> blocking.Receipt:
        session = f"cash machine {self.site.name}".encode()
        return self.site.log.append(msgspec.json.encode(withdrawal), session=session, number=number)

    def post_all(self) -> None:
        """Waits until what was paid out blindly is posted."""
        while self.unposted:
            self.unposted.pop().ordered()
        self.given_offline.clear()

    def balances(self) -> dict[str, int]:
        """No older than the question."""
        self.runner.caught_up()
        return self.bank.balances


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, LocalCluster.create(directory) as cluster, ExitStack() as stack:
        cluster.start()
        machines = {
            name: CashMachine(stack.enter_context(blocking.connect(address)), stack)
            for name, address in cluster.addresses.items()
        }

        def tell(name: str, account: str, amount: int) -> None:
            print(f"  machine {name}, {account}: {machines[name].withdraw(account, amount)}")

        print("connected; Ada and Ben have 100 each")
        tell("a", "Ada", 60)
        tell("b", "Ada", 60)

        print("machine a is cut off")
        cluster.partition([["a"], ["b", "c"]])
        cluster.wait_for()
        tell("a", "Ben", 40)
        tell("a", "Ben", 40)
        tell("b", "Ben", 80)

        print("connected again")
        cluster.heal()
        cluster.wait_for()
        posted = machines["a"].repeat(Withdrawal("Ben", 40, paid=True))
        print(f"  machine a repeats its last withdrawal: {'posted already' if posted else 'posted now'}")
        machines["a"].post_all()
        for name, machine in machines.items():
            print(f"  machine {name}: {machine.balances()}")


if __name__ == "__main__":
    main()
