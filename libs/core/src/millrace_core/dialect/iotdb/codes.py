"""IoTDB's status codes, which its clients see in an answer, next to Millrace's own error codes."""

from __future__ import annotations

from enum import Enum

from millrace_core.errors import ErrorCode, MillraceError, Position, SqlError


class Status(Enum):
    """A status of IoTDB: its number, and Millrace's error code for an error with this status."""

    SUCCESS = (200, ErrorCode.INTERNAL)
    UNSUPPORTED_OPERATION = (300, ErrorCode.UNSUPPORTED)
    EXECUTE_STATEMENT_ERROR = (301, ErrorCode.UNAVAILABLE)
    ILLEGAL_PARAMETER = (303, ErrorCode.INVALID_VALUE)
    INTERNAL_SERVER_ERROR = (305, ErrorCode.INTERNAL)
    UNSUPPORTED_STATEMENT = (407, ErrorCode.UNSUPPORTED)
    ROW_LIMIT = (411, ErrorCode.TOO_LARGE)
    DATABASE_NOT_EXIST = (500, ErrorCode.UNKNOWN_DATABASE)
    DATABASE_ALREADY_EXISTS = (501, ErrorCode.DATABASE_EXISTS)
    TIMESERIES_ALREADY_EXIST = (503, ErrorCode.TABLE_EXISTS)
    METADATA_ERROR = (507, ErrorCode.INVALID_VALUE)
    PATH_NOT_EXIST = (508, ErrorCode.UNKNOWN_TABLE)
    ILLEGAL_PATH = (509, ErrorCode.INVALID_VALUE)
    WRONG_LOGIN = (600, ErrorCode.AUTHENTICATION)
    NO_LOGIN = (603, ErrorCode.AUTHENTICATION)
    SQL_PARSE_ERROR = (700, ErrorCode.SYNTAX)
    SEMANTIC_ERROR = (701, ErrorCode.NOT_ALLOWED)
    NO_PERMISSION = (803, ErrorCode.PERMISSION)
    CREATE_TRIGGER_ERROR = (1300, ErrorCode.NOT_ALLOWED)
    DROP_TRIGGER_ERROR = (1301, ErrorCode.UNKNOWN_STREAM)
    TRIGGER_FIRE_ERROR = (1302, ErrorCode.NOT_ALLOWED)
    TRIGGER_LOAD_CLASS_ERROR = (1303, ErrorCode.NOT_ALLOWED)
    TRIGGER_DOWNLOAD_ERROR = (1304, ErrorCode.NOT_ALLOWED)
    NO_SUCH_CQ = (1400, ErrorCode.UNKNOWN_STREAM)
    CQ_ALREADY_EXIST = (1402, ErrorCode.STREAM_EXISTS)

    @property
    def number(self) -> int:
        return self.value[0]


class IotdbError(SqlError):
    """A statement that is refused with one of IoTDB's statuses."""

    def __init__(self, status: Status, message: str, position: Position | None = None) -> None:
        super().__init__(status.value[1], message, position)
        self.status = status


_OTHERS: dict[ErrorCode, Status] = {
    ErrorCode.SYNTAX: Status.SQL_PARSE_ERROR,
    ErrorCode.UNSUPPORTED: Status.UNSUPPORTED_OPERATION,
    ErrorCode.UNKNOWN_DATABASE: Status.DATABASE_NOT_EXIST,
    ErrorCode.DATABASE_EXISTS: Status.DATABASE_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TABLE: Status.PATH_NOT_EXIST,
    ErrorCode.AUTHENTICATION: Status.WRONG_LOGIN,
    ErrorCode.PERMISSION: Status.NO_PERMISSION,
    ErrorCode.TOO_LARGE: Status.ILLEGAL_PARAMETER,
    ErrorCode.UNDECODABLE: Status.ILLEGAL_PARAMETER,
    ErrorCode.UNAVAILABLE: Status.EXECUTE_STATEMENT_ERROR,
    ErrorCode.TIMEOUT: Status.EXECUTE_STATEMENT_ERROR,
    ErrorCode.INTERNAL: Status.INTERNAL_SERVER_ERROR,
}


def status_of(error: MillraceError) -> Status:
    """The status that a client of IoTDB sees for any error; codes without one of their own are
    semantic errors."""
    if isinstance(error, IotdbError):
        return error.status
    return _OTHERS.get(error.code, Status.SEMANTIC_ERROR)


def syntax(message: str, position: Position | None) -> IotdbError:
    return IotdbError(Status.SQL_PARSE_ERROR, message, position)


def semantic(message: str, position: Position | None = None) -> IotdbError:
    return IotdbError(Status.SEMANTIC_ERROR, message, position)


def unsupported(message: str, position: Position | None = None) -> IotdbError:
    return IotdbError(Status.UNSUPPORTED_OPERATION, message, position)
