"""The algorithm of the paper: the message queue with its colours, the order rule, recovery after a change of
configuration, and how a primary component is established."""
