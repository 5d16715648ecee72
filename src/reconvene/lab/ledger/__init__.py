"""The answers that writers got, compared with what readers and replicas have: nothing lost, nothing twice, one
order."""
