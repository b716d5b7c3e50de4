"""TDengine's older stream dialect (3.3.6 and before): options before INTO, and the window in the query.

Its other statements are those of ``tdengine``.
"""

from millrace_core.dialect.legacy.grammar import create_stream
from millrace_core.dialect.legacy.lower import lower
from millrace_core.dialect.legacy.result import complete

__all__ = ["complete", "create_stream", "lower"]
