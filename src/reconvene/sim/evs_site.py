"""The stack `evs` of the simulator: a bare site."""

from reconvene.ids import Service
from reconvene.stack.stack import Stack

__all__ = ["EvsSite"]


class EvsSite(Stack):
    """Its application submits to the site itself."""

    def submit(self, service: Service, payload: bytes, now: int) -> None:
        self.site.submit(service, payload, now)

    def room(self) -> int:
        return self.site.room()

    def withdraw(self) -> int:
        return self.site.withdraw()
