"""TDengine's SQL with the streams of 3.3.7: text to statements (:func:`parse`), streams to the model."""

from millrace_core.dialect.tdengine.lower import lower
from millrace_core.dialect.tdengine.output import complete
from millrace_core.dialect.tdengine.parse_stream import create_stream
from millrace_core.dialect.tdengine.parser import parse

__all__ = ["complete", "create_stream", "lower", "parse"]
