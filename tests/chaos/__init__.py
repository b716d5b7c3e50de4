"""Kills and pauses of every part under load, and an oracle that says what every stream must hold in the end.

``make chaos SEEDS=1..20 MINUTES=2``; docs/CHAOS.md says how to read and repeat what it finds.
"""
