"""Dynamic voting by itself: a model of the log's replicas that is small enough to be gone through exhaustively, and
random histories of faults that compare the rules of voting."""
