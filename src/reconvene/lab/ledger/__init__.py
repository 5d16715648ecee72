"""What writers were told, compared with what readers and replicas got: nothing lost, nothing twice, one order."""
