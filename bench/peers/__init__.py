"""Millrace beside other stream engines: one machine, the same Kafka, the same rows, the same three jobs."""
