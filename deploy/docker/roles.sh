#!/bin/sh
# Run once by the Postgres image, for a new volume. Creates the login that owns and migrates the database, and the
# login of the service, which can change neither the schema nor the audit. Neither is a superuser or may create roles.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv owner POSTGRES_OWNER_PASSWORD
\getenv service POSTGRES_SERVICE_PASSWORD
CREATE ROLE longshore_service NOLOGIN;
CREATE ROLE longshore_owner LOGIN PASSWORD :'owner' IN ROLE longshore_service;
CREATE ROLE longshore LOGIN PASSWORD :'service' IN ROLE longshore_service;
CREATE DATABASE longshore OWNER longshore_owner;
SQL
