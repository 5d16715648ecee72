"""The Spark engine of `verify`: certificates prove a run right in parallel; what they do not prove is judged exactly."""
