"""The built-in Postgres and Temporal, and the supervisor that runs the whole stack."""
