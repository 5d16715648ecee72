"""Cash machines: withdrawals from accounts, at machines that may be cut off from the bank.

Service: the durable log. Where a machine is with the majority, it asks: the withdrawal is appended, and the notes
come out when it has its place in the order and the balance was enough there. Withdrawals of one account at two
machines at the same moment can't both pass. If no answer comes in time, it pays nothing, and appends that the
withdrawal is undone: that has its place behind it, wherever that is.

In a minority: the machine has no way to learn what was withdrawn elsewhere. It looks at a small list of its own,
and gives up to OFFLINE_LIMIT to each card. The withdrawal is appended all the same: that is what posts it when the
network is whole again, whatever the balance is by then; an account may end below zero, and then owes a fee.

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
PATIENCE_S = 10.0
"""How long a customer waits for an answer. A machine that was cut off a moment ago does not know it yet."""


class Withdrawal(msgspec.Struct, tag=True, frozen=True):
    machine: str
    account: str
    amount: int
    paid: bool
    """The notes are out already: it has to be posted, whatever the balance is."""


class Undo(msgspec.Struct, tag=True, frozen=True):
    """Of the machine's last withdrawal: the customer has left without the notes."""

    machine: str


class Bank(reconvene.StateMachine):
    def __init__(self, balances: dict[str, int]) -> None:
        self.balances = balances
        self.granted: dict[str, Withdrawal] = {}
        """Each machine's last withdrawal, unless the balance was too low for it."""

    def apply(self, entry: reconvene.Entry) -> None:
        asked = msgspec.json.decode(entry.data, type=Withdrawal | Undo)
        before = self.granted.pop(asked.machine, None)
        match asked:
            case Withdrawal(machine, account, amount, paid):
                left = self.balances[account] - amount
                if left >= 0 or paid:
                    self.balances[account] = left if left >= 0 else left - FEE
                    self.granted[machine] = asked
            case Undo() if before is not None:
                self.balances[before.account] += before.amount

    def snapshot(self) -> bytes:
        return msgspec.json.encode((self.balances, self.granted))

    def restore(self, data: bytes) -> None:
        self.balances, self.granted = msgspec.json.decode(data, type=tuple[dict[str, int], dict[str, Withdrawal]])


class CashMachine:
    """A machine keeps its last number and its list on its own disk; here they are in memory."""

    def __init__(self, site: blocking.Site, stack: ExitStack) -> None:
        self.site = site
        self.bank = Bank({"Ada": 100, "Ben": 100})
        self.runner = stack.enter_context(site.log.run(self.bank))
        self.session = site.log.session(f"cash machine {site.name}".encode(), after=0)
        self.given_offline: dict[str, int] = {}
        self.unposted: list[blocking.Receipt] = []

    def withdraw(self, account: str, amount: int) -> str:
        if self.site.health() != "primary":
            return self._withdraw_offline(account, amount)
        try:
            position = self._post(Withdrawal(self.site.name, account, amount, paid=False)).ordered(PATIENCE_S)
        except reconvene.OutcomeUnknown:
            self._post(Undo(self.site.name))  # it will be posted, and taken back behind it
            return f"{amount} refused: no answer from the bank"
        self.runner.applied(position)
        if self.site.name in self.bank.granted:
            return f"{amount} paid out"
        return f"{amount} refused: the balance is {self.bank.balances[account]}"

    def _withdraw_offline(self, account: str, amount: int) -> str:
        given = self.given_offline.get(account, 0)
        if given + amount > OFFLINE_LIMIT:
            return f"{amount} refused: no more than {OFFLINE_LIMIT} while the bank can't be reached"
        self.given_offline[account] = given + amount
        # Durable before the notes come out.
        self.unposted.append(self._post(Withdrawal(self.site.name, account, amount, paid=True)))
        return f"{amount} paid out, to be posted later"

    def repeat(self, last: Withdrawal | Undo) -> bool:
        """After a restart: posts the last one again, since it may have been lost. Was it posted before?"""
        return self.session.append(msgspec.json.encode(last), number=self.session.last).duplicate

    def _post(self, asked: Withdrawal | Undo) -> blocking.Receipt:
        return self.session.append(msgspec.json.encode(asked))

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
        posted = machines["a"].repeat(Withdrawal("a", "Ben", 40, paid=True))
        print(f"  machine a repeats its last withdrawal: {'posted already' if posted else 'posted now'}")
        machines["a"].post_all()
        for name, machine in machines.items():
            print(f"  machine {name}: {machine.balances()}")


if __name__ == "__main__":
    main()
