class JMESPathError(ValueError): ...
class EmptyExpressionError(JMESPathError): ...

class ParseError(JMESPathError):
    lex_position: int
    token_value: str
    token_type: str

class LexerError(ParseError):
    lexer_position: int
    lexer_value: str
