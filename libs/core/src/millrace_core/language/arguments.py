"""Arguments as written become values of the model, checked by the rules of ``model/rules.py``."""

from __future__ import annotations

from typing import cast

from millrace_core.errors import MillraceError
from millrace_core.language.lexer import tokens
from millrace_core.language.statements import Argument
from millrace_core.language.words import Token, TokenKind
from millrace_core.model.rules import DurationRule, IntegerRule
from millrace_core.model.schema import Precision
from millrace_core.model.stream import Duration, Unit
from millrace_core.timeline.precision import UNIT_NS, shortest_ns, ticks
from millrace_core.trigger.types.arguments import bad as bad


def one_token(argument: Argument) -> Token | None:
    """The argument's only token; None if it has several."""
    found = tokens(argument.text, argument.position)
    return found[0] if len(found) == 1 else None


def duration(argument: Argument, what: str, rule: DurationRule, precision: Precision | None) -> Duration:
    """The duration that an argument stands for.

    ``what``: the clause and the argument's name, for errors. ``precision``: that of the trigger table; None
    if the duration is one of processing time.

    :raises SqlError: if it is not a duration, has a unit or a length that the rule does not allow, or is
    not a whole number of ticks.
    """
    token = one_token(argument)
    if token is None or token.kind is not TokenKind.DURATION or not token.value[:-1].isdigit():
        raise bad(f"{what}: {argument.text} is not valid; expected {rule}", argument.position)
    found = Duration(int(token.value[:-1]), cast(Unit, token.value[-1]))
    if found.unit not in rule.units or not _in_range(found, rule):
        raise bad(f"{what}: {argument.text} is not valid; expected {rule}", argument.position)
    if precision is not None and found.unit in UNIT_NS:
        try:
            ticks(found, precision)
        except MillraceError as error:
            raise bad(f"{what}: {error.message}", argument.position) from None
    return found


def _in_range(found: Duration, rule: DurationRule) -> bool:
    length = shortest_ns(found)
    if rule.low and length < shortest_ns(rule.low):
        return False
    if rule.high and length > shortest_ns(rule.high):
        return False
    if rule.below and length >= shortest_ns(rule.below):
        return False
    return length > 0 or rule.zero


def integer(argument: Argument, what: str, rule: IntegerRule) -> int:
    """The whole number that an argument stands for; :raises SqlError: if it is not one, or out of range."""
    token = one_token(argument)
    if token is None or token.kind is not TokenKind.INTEGER or not token.value.isdigit():
        raise bad(f"{what}: {argument.text} is not valid; expected {rule}", argument.position)
    value = int(token.value)
    if not rule.low <= value <= rule.high:
        raise bad(f"{what}: {argument.text} is not valid; expected {rule}", argument.position)
    return value


def name(argument: Argument, what: str) -> str:
    """The name that an argument stands for; :raises SqlError: if it is not one."""
    token = one_token(argument)
    if token is None or token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        raise bad(f"{what}: {argument.text} is not a column name", argument.position)
    return token.value
