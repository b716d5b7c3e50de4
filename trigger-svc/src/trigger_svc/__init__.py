"""Decides when: one Spark streaming query over the WAL, hosting the slots of ``millrace_core.trigger``."""
