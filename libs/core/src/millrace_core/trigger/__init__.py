"""When a stream triggers. Its packages, each of which builds on those before it:

- ``groups``: the groups of a stream, what is kept of each, and how far each has come (watermark);
- ``rows``: what messages hold, and what a stream reads from it (conditions, signals, rows of virtual tables);
- ``types``: one package for each trigger type;
- ``stream``: a stream in a slot: its definition, its live rows, changes and history, and what it tells;
- ``slot``: a fixed share of all tables and groups, and the streams in it.

Pure: messages and memory in, trigger events and memory out. Time is data: nothing here reads a clock.
"""
