"""Millrace's query language (TDengine's SELECT) as a sqlglot dialect: a subclass and tables.

The tables are closed: what is not in them is not part of the language, so nothing foreign that sqlglot knows
slips through. Every function call becomes ``exp.Anonymous`` (the planner has the table of functions), every
placeholder becomes ``exp.Placeholder``, and every name carries its position.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import exp, parser
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from millrace_core.language.query import nodes
from millrace_core.language.query.calls import CALLS
from millrace_core.language.query.joins import parse_join
from millrace_core.language.query.tokens import CLAUSE, CONTAINS, NMATCH

# sqlglot's messages that mention its own internals
_MESSAGES = {
    "Required keyword": "incomplete expression or clause",
    "Expected table name": "expected a table name",
    "Invalid expression": "this is not allowed here",
}


class Millrace(Dialect):
    """TDengine's SELECT with the placeholders of streams."""

    NULL_ORDERING = "nulls_are_small"

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar[Any] = {}
        FUNCTION_PARSERS: ClassVar[Any] = CALLS
        NO_PAREN_FUNCTIONS: ClassVar[Any] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[Any] = {"CASE": lambda self: self._parse_case()}
        STATEMENT_PARSERS: ClassVar[Any] = {}
        LAMBDAS: ClassVar[Any] = {}
        TYPE_TOKENS: ClassVar[Any] = set()
        SUBQUERY_PREDICATES: ClassVar[Any] = {}
        ID_VAR_TOKENS: ClassVar[Any] = {TokenType.VAR}
        ALIAS_TOKENS: ClassVar[Any] = {TokenType.VAR}
        TABLE_ALIAS_TOKENS: ClassVar[Any] = {TokenType.VAR}
        FUNC_TOKENS: ClassVar[Any] = {TokenType.VAR, TokenType.LEFT, TokenType.RIGHT, CLAUSE}
        OPERATION_MODIFIERS: ClassVar[Any] = {"TAGS"}
        PRIMARY_PARSERS: ClassVar[Any] = {
            **{
                key: parser.Parser.PRIMARY_PARSERS[key]
                for key in (
                    TokenType.STRING, TokenType.NUMBER, TokenType.NULL, TokenType.TRUE, TokenType.FALSE,
                )
            },
            TokenType.STAR: lambda self, token: self.expression(exp.Star(), token),
        }  # fmt: skip
        PLACEHOLDER_PARSERS: ClassVar[Any] = {TokenType.PARAMETER: lambda self: self._parse_percent()}
        COLUMN_OPERATORS: ClassVar[Any] = {
            TokenType.DOT: None,
            TokenType.ARROW: lambda self, this, key: self.expression(
                nodes.JsonGet(this=this, expression=key)
            ),
        }
        RANGE_PARSERS: ClassVar[Any] = {
            **{
                key: parser.Parser.RANGE_PARSERS[key]
                for key in (TokenType.BETWEEN, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.RLIKE)
            },
            NMATCH: lambda self, this: exp.Not(
                this=self.expression(exp.RegexpLike(this=this, expression=self._parse_bitwise()))
            ),
            CONTAINS: lambda self, this: self.expression(
                nodes.JsonContains(this=this, expression=self._parse_bitwise())
            ),
        }
        QUERY_MODIFIER_PARSERS: ClassVar[Any] = {
            **{
                key: parser.Parser.QUERY_MODIFIER_PARSERS[key]
                for key in (
                    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY,
                    TokenType.LIMIT, TokenType.OFFSET,
                )
            },
            TokenType.PARTITION_BY: lambda self: self._parse_partition_clause(),
            CLAUSE: lambda self: self._parse_clause(),
        }  # fmt: skip
        QUERY_MODIFIER_TOKENS: ClassVar[Any] = set(QUERY_MODIFIER_PARSERS)
        EXPRESSION_PARSERS: ClassVar[Any] = {
            exp.Query: lambda self: self._parse_query(),
            exp.Condition: lambda self: self._parse_disjunction(),
        }
        CLAUSE_PARSERS: ClassVar[dict[str, Callable[[Any], tuple[str, exp.Expr]]]] = {
            "INTERVAL": lambda self: self._parse_interval_window(),
            "SESSION": lambda self: self._parse_session_window(),
            "STATE_WINDOW": lambda self: self._parse_state_window(),
            "EVENT_WINDOW": lambda self: self._parse_event_window(),
            "COUNT_WINDOW": lambda self: (
                "window_clause", nodes.CountWindow(expressions=self._parse_arguments()),
            ),
            "ANOMALY_WINDOW": lambda self: (
                "window_clause", nodes.AnomalyWindow(expressions=self._parse_arguments()),
            ),
            "FILL": lambda self: self._parse_fill(),
            "RANGE": lambda self: ("range_clause", nodes.Range(expressions=self._parse_arguments())),
            "EVERY": lambda self: ("every", self._parse_arguments()[0]),
            "SLIMIT": lambda self: ("slimit", self._parse_slimit()),
            "SOFFSET": lambda self: ("soffset", self._parse_count()),
        }  # fmt: skip

        def raise_error(self, message: str, token: Token = parser.SENTINEL_NONE) -> None:
            message = next(
                (ours for theirs, ours in _MESSAGES.items() if message.startswith(theirs)), message
            )
            at = token or self._curr
            near = f" near {at.text!r}" if at else " at the end"
            start = at.start if at else len(self.sql.rstrip())
            # the offset is passed as the line; the caller knows the text and turns it into a place
            raise ParseError.new(message, description=f"syntax error{near}: {message}", line=start)

        def _parse_query(self) -> exp.Expr | None:
            query = self._parse_select(nested=self._curr.token_type == TokenType.L_PAREN)
            query = self._parse_set_operations(query)
            if not isinstance(query, exp.Query):
                self.raise_error("expected a SELECT")
            if isinstance(query, exp.Subquery) and self._curr:
                self.raise_error("a SELECT in parentheses can be followed only by UNION")
            return self._parse_query_modifiers(query)

        def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
            found = self._parse_csv(self._parse_projection)
            if not found:
                self.raise_error("expected a result column")
            return found, None

        def _parse_projection(self) -> exp.Expr | None:
            first = self._curr
            this = self._parse_expression()
            if this is not None:
                this.meta["text"] = self._find_sql(first, self._prev)
            return this

        def _parse_type(
            self, parse_interval: bool = True, fallback_to_identifier: bool = False
        ) -> exp.Expr | None:
            number, unit = self._curr, self._next
            if (
                number.token_type == TokenType.NUMBER
                and unit
                and unit.token_type == TokenType.VAR
                and unit.start == number.end + 1
            ):
                return self._parse_duration()
            if number.text.upper() == "TIMESTAMP" and unit and unit.token_type == TokenType.STRING:
                self._advance()
                kind = exp.Literal.string("TIMESTAMP")
                return self.expression(
                    exp.Anonymous(this="cast", expressions=[self._parse_string(), kind]), number
                )
            return self._parse_atom() or self._parse_column()

        def _parse_duration(self) -> exp.Expr:
            number, unit = self._curr, self._next
            if unit.text.lower() not in nodes.UNITS or not number.text.isdigit():
                text = number.text + unit.text
                self.raise_error(
                    f"{text} is not a duration (an integer followed by one of {', '.join('bausmhdwny')})",
                    number,
                )
            self._advance(2)
            literal = nodes.DurationLiteral(this=int(number.text), unit=unit.text.lower())
            return self.expression(literal, number)

        def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> list[Any]:
            items = [parse_method()]
            while self._match(sep):
                items.append(parse_method())
                if items[-1] is None or items[0] is None:
                    self.raise_error("something is missing before or after the comma")
            return [item for item in items if item is not None]

        def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
            return this  # no OVER clause in this language

        def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
            return self._parse_csv(self._parse_disjunction)

        def _parse_join(self, *args: Any, **named: Any) -> exp.Join | None:
            return parse_join(self) or super()._parse_join(*args, **named)

        def _parse_table_part(self, schema: bool = False) -> exp.Expr | None:
            return self._parse_id_var(any_token=False)

        def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
            any_token = self._match(TokenType.ALIAS)
            name = self._parse_id_var(any_token=any_token, tokens=self.TABLE_ALIAS_TOKENS)
            return self.expression(exp.TableAlias(this=name)) if name else None

        def _parse_percent(self) -> exp.Expr:
            percent = self._prev
            name = self._curr
            if not self._is_connected() or name.token_type not in (TokenType.VAR, TokenType.NUMBER):
                self.raise_error(
                    "a placeholder must be %%tbname, %%trows or %% followed by a number", percent
                )
            self._advance()
            text = f"%%{name.text.lower()}"
            if not re.fullmatch(r"%%(\d+|tbname|trows)", text):
                self.raise_error(f"unknown placeholder {text}", percent)
            return self.expression(exp.Placeholder(this=text), percent)

        def _parse_required(self) -> exp.Expr:
            this = self._parse_disjunction()
            if this is None:
                self.raise_error("expected an expression")
            return cast(exp.Expr, this)

        def _parse_arguments(self) -> list[exp.Expr]:
            return self._parse_wrapped_csv(self._parse_required)

        def _parse_count(self) -> exp.Expr:
            number = self._parse_number()
            if not isinstance(number, exp.Literal) or not number.this.isdigit():
                self.raise_error("expected a non-negative integer", self._prev)
            return cast(exp.Expr, number)

        def _parse_slimit(self) -> exp.Expr:
            """``SLIMIT skipped, count`` is SLIMIT count SOFFSET skipped: kept as ``meta["soffset"]``."""
            first = self._parse_count()
            if not self._match(TokenType.COMMA):
                return first
            second = self._parse_count()
            second.meta["soffset"] = first
            return second

        def _parse_partition_clause(self) -> tuple[str, list[exp.Expr]]:
            self._advance()
            return "partition_by", self._parse_csv(self._parse_expression)

        def _parse_clause(self) -> tuple[str, exp.Expr]:
            token = self._curr
            parse = self.CLAUSE_PARSERS.get(token.text.upper())
            if parse is None:
                self.raise_error("this clause cannot be used on its own")
                raise AssertionError
            self._advance()
            key, node = parse(self)
            node.update_positions(token)
            return key, node

        def _parse_option(self, name: str) -> exp.Expr | None:
            """``NAME(argument)`` if it comes next."""
            if not self._match_text_seq(name):
                return None
            return self._parse_arguments()[0]

        def _parse_interval_window(self) -> tuple[str, exp.Expr]:
            this, *rest = self._parse_arguments()
            if len(rest) > 1:
                self.raise_error("INTERVAL takes an interval and an optional offset", self._prev)
            sliding = self._parse_option("SLIDING")
            lengths = {"this": this, "offset": rest[0] if rest else None, "sliding": sliding}
            read = {key: node and nodes.length_of(node) for key, node in lengths.items()}
            return "window_clause", nodes.IntervalWindow(**read)

        def _parse_session_window(self) -> tuple[str, exp.Expr]:
            arguments = self._parse_arguments()
            if len(arguments) != 2:
                self.raise_error("SESSION takes two arguments: the time column and a gap", self._prev)
            return "window_clause", nodes.SessionWindow(this=arguments[0], gap=arguments[1])

        def _parse_state_window(self) -> tuple[str, exp.Expr]:
            this, *rest = self._parse_arguments()
            true_for = self._parse_option("TRUE_FOR")
            extend = rest[0] if rest else None
            return "window_clause", nodes.StateWindow(this=this, extend=extend, true_for=true_for)

        def _parse_event_window(self) -> tuple[str, exp.Expr]:
            wrapped = self._match(TokenType.L_PAREN)
            if not self._match_text_seq("START", "WITH"):
                self.raise_error("expected START WITH")
            start = self._parse_required()
            if not self._match_text_seq("END", "WITH"):
                self.raise_error("expected END WITH")
            end = self._parse_required()
            if wrapped:
                self._match_r_paren()
            true_for = self._parse_option("TRUE_FOR")
            return "window_clause", nodes.EventWindow(start=start, end=end, true_for=true_for)

        def _parse_fill(self) -> tuple[str, exp.Expr]:
            self._match_l_paren()
            mode = self._curr.text.upper()
            if mode not in ("NONE", "NULL", "NULL_F", "VALUE", "VALUE_F", "PREV", "NEXT", "LINEAR", "NEAR"):
                self.raise_error("unknown FILL mode")
            self._advance()
            values = self._parse_csv(self._parse_disjunction) if self._match(TokenType.COMMA) else []
            self._match_r_paren()
            return "fill", nodes.Fill(this=mode, expressions=values)
