#!/bin/sh
# Run once by the image of Postgres, for a new volume: who owns the database and migrates it, and who serves, which may neither
# change a table nor the audit. Neither is a superuser.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv owner POSTGRES_OWNER_PASSWORD
\getenv service POSTGRES_SERVICE_PASSWORD
CREATE ROLE longshore_service NOLOGIN;
CREATE ROLE longshore_owner LOGIN CREATEROLE PASSWORD :'owner';
GRANT longshore_service TO longshore_owner WITH ADMIN OPTION;
CREATE ROLE longshore LOGIN PASSWORD :'service' IN ROLE longshore_service;
CREATE DATABASE longshore OWNER longshore_owner;
SQL
