"""What clients may rely on: appended messages become batches, a session's retry is taken once, a transaction's
messages are seen together, and a barrier waits for everything that was ordered before it."""
