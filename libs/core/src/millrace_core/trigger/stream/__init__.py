"""A stream in a slot: the part of its definition that says when, its live rows, changes and history, what it
tells."""

from millrace_core.trigger.stream.definition import Definition, compiled, essence
from millrace_core.trigger.stream.delay import APART, FAR, delay_of
from millrace_core.trigger.stream.state import STEADY
from millrace_core.trigger.stream.stream import Stream
from millrace_core.trigger.stream.telling import Output

__all__ = [
    "APART", "FAR", "STEADY", "Definition", "Output", "Stream", "compiled", "delay_of",
    "essence",
]  # fmt: skip
