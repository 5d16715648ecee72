"""The Spark engine of `verify`: certificates prove runs right in parallel; what they do not prove is judged."""
