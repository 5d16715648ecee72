"""The log as a Spark source: batches and streams of rows, in the log's order, from whichever replica answers."""
