"""The dialect of Apache IoTDB: statements over paths of devices and measurements (seed 004)."""

from millrace_core.dialect.iotdb.codes import IotdbError, Status, status_of
from millrace_core.dialect.iotdb.parser import parse

__all__ = ["IotdbError", "Status", "parse", "status_of"]
