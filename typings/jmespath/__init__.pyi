# What language/expressions uses of jmespath, which has no types of its own: also what its parser and lexer
# call on themselves.
