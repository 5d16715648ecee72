"""The durable, totally ordered log: the COReL algorithm above group communication, sans-IO.

Its face is here: `replica` (one running replica), `events` (what it reports), `messages` and `batch` (what replicas
send to each other), `limits`. The rest is in four rooms:

    paper       the algorithm: the queue, ordering, recovery, establishing a primary component
    replicas    which sites keep the log, which of them are a quorum, and how that changes
    keeping     what is on stable storage, how it is read back, checked and shortened, and snapshots
    clients     what clients may rely on: appending, sessions and retries, transactions, barriers
"""
