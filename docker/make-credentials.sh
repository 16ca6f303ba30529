#!/bin/sh
# Makes the passwords and the root key of a new installation, in the folder that is named: a subfolder for
# each of those who need them. What is there already stays.
set -eu

folder=$1

random() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }

# Whole or not at all. The readers run as other users; what keeps others out is that the volume of a subfolder
# is mounted into their containers alone.
put() {
  [ -s "$folder/$1" ] && return
  printf '%s\n' "$2" > "$folder/$1.new"
  chmod 0444 "$folder/$1.new"
  mv "$folder/$1.new" "$folder/$1"
  echo "made $1"
}

put postgres/superuser_password "$(random)"
put postgres/vedette_password "$(random)"
put postgres/temporal_password "$(random)"
put temporal/password "$(cat "$folder/postgres/temporal_password")"
put vedette/database_url "postgresql://vedette:$(cat "$folder/postgres/vedette_password")@postgres:5432/vedette"
put vedette/secret_key "$(random)"
