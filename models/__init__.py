"""The domain: tables, public shapes, queries and rules, one package for each noun.

Nothing here depends on HTTP or Temporal. Every query is scoped by account.
"""

from sqlmodel import SQLModel

# Constraints get predictable names, so that migrations can refer to them.
SQLModel.metadata.naming_convention = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
