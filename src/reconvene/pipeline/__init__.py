"""The data pipeline on Spark: traces verified and measured, fault campaigns, and the log as tables. Extra `spark`."""
