"""The durable, totally ordered log: the COReL algorithm above group communication, sans-IO."""
