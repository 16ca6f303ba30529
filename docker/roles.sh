#!/bin/sh
# Makes the roles and databases of vedette and of Temporal: neither can read what the other has.
# The image of Postgres runs it once, over a new database.
set -eu

# The passwords are read by psql itself, so that no command line shows them.
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\set vedette `cat "$CREDENTIALS/vedette_password"`
\set temporal `cat "$CREDENTIALS/temporal_password"`
create role vedette login password :'vedette';
create role temporal login password :'temporal';
create database vedette owner vedette;
create database temporal owner temporal;
create database temporal_visibility owner temporal;
revoke connect on database vedette, temporal, temporal_visibility from public;
SQL
