"""An outpost of the log: it accepts messages where no replica is, and forwards them, once, in order. Sans-IO."""
