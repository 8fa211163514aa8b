"""Operands of SQL: columns, calls and CASE, which most are, are parsed in a short way.

sqlglot asks on 14 levels for an operator, and on several more what an operand is. Each method here
returns what the inherited one returns.
"""

from __future__ import annotations

from sqlglot import TokenType, exp
from sqlglot.parsers.spark import SparkParser

# Words that end an expression.
_ENDS = {
    *(TokenType.COMMA, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.ALIAS),
    *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
}
# Those that end what is compared as well; two angles may be a shift.
_ENDS_OF_COMPARED = {
    *_ENDS,
    *(TokenType.EQ, TokenType.NEQ, TokenType.GTE, TokenType.LTE, TokenType.AND, TokenType.OR),
}
_ANGLES = {TokenType.GT, TokenType.LT}


class Operands(SparkParser):
    """sqlglot's parser with short ways through operands."""

    # An operand that is parsed before the levels of operators are asked: it is the first thing
    # for which they call `_parse_unary`.
    _operand: tuple[exp.Expr | None] | None = None

    def _parse_disjunction(self) -> exp.Expr | None:
        if self._curr.token_type is TokenType.WHEN:  # of a CASE that compares nothing
            return None
        operand = self._parse_unary()
        if self._curr.token_type in _ENDS:
            return operand
        self._operand = (operand,)
        return super()._parse_disjunction()

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        if this is not None:
            return super()._parse_range(this, parse_is)
        operand = self._parse_unary()
        kind = self._curr.token_type
        if kind in _ENDS_OF_COMPARED or (kind in _ANGLES and self._next.token_type is not kind):
            return operand
        self._operand = (operand,)
        return super()._parse_range(None, parse_is)

    def _parse_unary(self) -> exp.Expr | None:
        if self._operand is not None:
            (operand,), self._operand = self._operand, None
            return operand
        token, following = self._curr, self._next.token_type
        if token.token_type is TokenType.CASE and following is TokenType.WHEN:
            return self._parse_column_ops(self._parse_function_call())
        if (
            token.token_type is not TokenType.VAR
            or token.text.upper() in self.NO_PAREN_FUNCTION_PARSERS
        ):
            return super()._parse_unary()
        if following is TokenType.L_PAREN:
            return self._parse_column_ops(self._parse_function_call())
        if (
            token.comments
            or following in self.COLUMN_OPERATORS
            or following in self.COLUMN_POSTFIX_TOKENS
        ):
            return super()._parse_unary()
        self._advance()
        name = exp.Identifier(this=token.text, quoted=False)
        return exp.Column(this=name.update_positions(token))
