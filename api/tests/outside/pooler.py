"""The service behind PgBouncer (PGBOUNCER), which has the file that `longshore-api pooler` prints: many clients at once change, list, stream,
sync and upload, and none gets a 5xx; each pool has its settings. A PgBouncer that loses settings, or prepared statements, is named, and the
processes before it are not ready."""

import http.client
import json
import os
import pathlib
import re
import secrets
import subprocess
import tempfile
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from local import free_port, wait_for
from pages import listens

SECONDS, CLIENTS = 6, 8
PROGRAMS, PGBOUNCER = os.environ["PROGRAMS"], os.environ["PGBOUNCER"]
LOGIN, PASSWORD = "longshore_pooled", secrets.token_hex(8)
SERVER = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
DATABASE = f"longshore-pooler-{os.getpid()}"
SYNC = "/api/partner-integration/eshop/sync/products"
# what a client would notice first, as Postgres says it
KEPT = {
    "requests": "longshore_service|2min|2s|force_generic_plan|off",
    "work": "longshore_service|2min|0|force_generic_plan|off",
    "lists": "longshore_service|5s|2s|force_custom_plan|on",
    "streams": "longshore_service|0|2s|force_custom_plan|on",
    "leases": "longshore_service|3s|0|force_generic_plan|off",
    "probe": "none|2s|0|auto|on",
}
ASKED = ["role", "statement_timeout", "lock_timeout", "plan_cache_mode", "enable_seqscan"]


def url(database, login=None, port=None):
    login = login or SERVER.netloc.rpartition("@")[0]
    return SERVER._replace(netloc=f"{login}@{SERVER.hostname}:{port or SERVER.port}", path=f"/{database}").geturl()


def psql(where, sql):
    ran = subprocess.run(["psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-c", sql, where], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


class Pgbouncer:
    """One with the printed file, or with another one."""

    def __init__(self, folder, file):
        self.port, self.log = free_port(), folder / "pgbouncer.log"
        (folder / "longshore.ini").write_text(file)
        (folder / "users").write_text(f'"{LOGIN}" "{PASSWORD}"\n')
        (folder / "pgbouncer.ini").write_text(
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {folder}/users\n%include {folder}/longshore.ini\n")
        command = [PGBOUNCER, str(folder / "pgbouncer.ini")]
        if os.geteuid() == 0:
            command[1:1] = ["-u", "nobody"]
        self.process = subprocess.Popen(command, stderr=self.log.open("w"))
        wait_for("PgBouncer", lambda: self.process.poll() is not None or listens(self.port))
        assert self.process.poll() is None, self.log.read_text()

    def url(self, pool=""):
        return url(DATABASE + pool, f"{LOGIN}:{PASSWORD}", self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class Service:
    """An api and a worker behind a pooler. `also` is another host of `DATABASE_URL`."""

    def __init__(self, folder, pgbouncer, also=""):
        self.ports, self.folder, self.processes = [free_port(), free_port()], folder, []
        self.environment = {
            **os.environ,
            "DATABASE_URL": pgbouncer.url().replace("@", "@" + also),
            "LONGSHORE_DATABASE_POOLED": "true",
            "LONGSHORE_QUEUE_PREFIX": f"{DATABASE}:",
            "LONGSHORE_ENCRYPTION_KEY": "pooler:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
            "LONGSHORE_OBJECT_STORE": str(folder / "objects"),
            "LONGSHORE_BIND": f"127.0.0.1:{self.ports[0]}",
            "LONGSHORE_WORKER_BIND": f"127.0.0.1:{self.ports[1]}",
            "LONGSHORE_WEBHOOK_ALLOW_HTTP": "true",
            "LONGSHORE_WEBHOOK_ALLOW_SUBNETS": "127.0.0.0/8",
            "LONGSHORE_DRAIN_SECONDS": "0",
            "LONGSHORE_RATE_LIMIT": "0",
        }

    def __enter__(self):
        for name, command in [("api", ["longshore-api", "serve"]), ("worker", ["longshore-worker"])]:
            command[0] = f"{PROGRAMS}/{command[0]}"
            log = (self.folder / f"{name}.log").open("w")
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log))
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def command(self, *arguments):
        return subprocess.run([f"{PROGRAMS}/longshore-api", *arguments], env=self.environment, capture_output=True, text=True)

    def doctor(self):
        """Its findings about the pooler."""
        ran = self.command("doctor", "--json")
        assert ran.stdout, ran.stderr
        return [found for found in json.loads(ran.stdout)["findings"] if found["check"] == "postgres.pooler"]

    def readiness(self, port):
        """The status and body of a process that answers."""
        def asked():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("GET", "/health/ready")
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except OSError:
                return None
        return wait_for("an answer", asked)

    def call(self, method, path, token, body=None, **headers):
        """The status and what came back; never 5xx."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=60)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json",
                   **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status < 500, (method, path, answer.status, text)
        return answer.status, json.loads(text) if text else None

    def create(self, path, token, **body):
        status, created = self.call("POST", path, token, body)
        assert status == 201, (path, status, created)
        return created["id"]


class Receiver(ThreadingHTTPServer):
    """Counts what it is sent."""

    daemon_threads = True

    def __init__(self):
        self.came = set()
        super().__init__(("127.0.0.1", 0), Receiving)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Receiving(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.came.add(self.headers["webhook-id"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def load(service):
    """What shops do, by many clients at once."""
    made = service.command("token", "create", "--role", "superadmin", "--name", "pooler")
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    organisation = service.create(
        "/api/organisation", token, name="Harbour Gifts", registrationNumber="10000001", vatNumber="CZ10000001",
        addressLine1="Harbour Street 1", addressLine2="110 00 Prague", primaryCountry="CZ")
    eshop = service.create("/api/eshop", token, organisation=organisation, name="Harbour shop")
    receiver = Receiver()
    service.create("/api/eshop-webhook", token, eshop=eshop, event="product_change",
                   destination=f"http://127.0.0.1:{receiver.server_port}/")
    until, counted = time.monotonic() + SECONDS, {}

    def call(what, *arguments, expected=(200, 201, 202, 204), **headers):
        status, answer = service.call(*arguments, **headers)
        assert status in expected, (what, status, answer)
        counted[what] = counted.get(what, 0) + 1
        return answer

    def client(n):
        done = 0
        while time.monotonic() < until:
            skus = [f"P{n}-{done}-{m}" for m in range(3)]
            done += 1
            ids = [call("change", "POST", "/api/product", token, {
                "organisation": organisation, "eshops": [eshop], "productSku": sku, "internalSku": sku, "name": "Harbour mug",
                "imeiCheckRequired": False, "active": True})["id"] for sku in skus]
            call("change", "PUT", f"/api/product/{ids[0]}", token, {"name": "Harbour mug, large"})
            call("change", "PUT", f"/api/product/deactivate/{ids[1]}", token)
            call("bulk", "PUT", "/api/product/deactivate", token, ids, Prefer="wait=30")
            criteria = {"productSku": {"like": f"P{n}-"}}
            page = call("list", "POST", "/api/product/list", token, {"criteria": criteria, "limit": 5})
            assert page["results"], page
            stream = call("stream", "POST", "/api/product/list", token, {"criteria": {"active": {"flag": False}}})
            assert len(stream["results"]) >= 3, stream
            rows = [{"eshop": eshop}, *({"productSku": sku, "name": f"sync {done}", "weight": done} for sku in skus)]
            rows = "".join(json.dumps(row) + "\n" for row in rows)
            job = call("sync", "POST", SYNC, token, rows, Prefer="wait=30", Content_Type="application/x-ndjson")
            assert job["state"] == "succeeded", job
            call("upload", "PUT", f"/api/product/{ids[2]}/image/upload", token, {
                "contentType": "image/gif", "data": "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=", "fileName": "mug.gif"})
            # by criteria: what is counted is no statement that is kept
            none = {"criteria": {"state": {"eq": "failed"}}, "expect": 0}
            refused = call("criteria", "PUT", "/api/job/retry", token, none, expected=[400])
            assert refused["detail"] == "criteria matches nothing", refused

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))
    assert all(counted.get(what) for what in ["change", "bulk", "list", "stream", "sync", "upload", "criteria"]), counted

    def delivered():
        left = service.call("POST", "/api/webhook-delivery/list", token, {
            "criteria": {"state": {"eq": "pending"}}, "limit": 1})[1]
        return receiver.came and not left["results"]

    wait_for("every delivery", delivered)
    receiver.shutdown()
    return {**counted, "webhook": len(receiver.came)}


def expect_refusal(folder, file, what, pools):
    """Processes behind a PgBouncer with this file are not ready, and say what each pool loses."""
    with Pgbouncer(folder, file) as pgbouncer, Service(folder, pgbouncer) as service:
        for port, own in zip(service.ports, ["requests", "work"]):
            def named():
                status, body = service.readiness(port)
                assert (status, body["postgres"]) == (503, "down"), body
                lost = body.get("pooler", "")
                return all(re.search(rf"loses [^;]*{what}[^;]* of the pool {pool}\b", lost) for pool in [own, *pools])
            wait_for(f"the refusal of {what}", named)
        found = service.doctor()
        assert len(found) == len(KEPT) and all(finding["verdict"] == "fail" for finding in found), found
        assert all(re.search(what, finding["found"]) for finding in found), found


def main(folder):
    psql(url("postgres"), f'CREATE DATABASE "{DATABASE}"')
    direct = {**os.environ, "DATABASE_URL": url(DATABASE)}
    subprocess.run([f"{PROGRAMS}/longshore-api", "migrate"], env=direct, check=True, stderr=subprocess.DEVNULL)
    psql(url(DATABASE), f"""DO $$ BEGIN CREATE ROLE {LOGIN} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        ALTER ROLE {LOGIN} PASSWORD '{PASSWORD}'; GRANT longshore_service TO {LOGIN}""")
    file = subprocess.run([f"{PROGRAMS}/longshore-api", "pooler"], env=direct, check=True, capture_output=True, text=True).stdout

    with Pgbouncer(folder, file) as pgbouncer, Service(folder, pgbouncer) as service:
        for port in service.ports:
            wait_for("a process that is ready", lambda: service.readiness(port)[0] == 200)
        counted = load(service)
        for pool, kept in KEPT.items():
            asked = ", ".join(f"current_setting('{name}')" for name in ASKED)
            assert psql(pgbouncer.url(f"_{pool}"), f"SELECT {asked}") == kept, pool
        found = service.doctor()
        assert len(found) == len(KEPT) and all(finding["verdict"] == "ok" for finding in found), found
        for command in ["migrate", "restored", "rotate-keys", "pooler"]:
            refused = service.command(command)
            assert refused.returncode == 1 and "needs Postgres itself" in refused.stderr, (command, refused)
        # commits that wait are those of the login, which is that of the pooler's sessions
        logins = psql(url(DATABASE), f"SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'")
        assert logins == LOGIN, logins
        for name in ["api", "worker"]:
            log = (folder / f"{name}.log").read_text()
            assert not re.search(r"prepared statement|the pooler loses", log), log[-4000:]

    # of several hosts, each is asked what it is through its pooler
    with Pgbouncer(folder, file) as pgbouncer, Service(folder, pgbouncer, f"127.0.0.1:{free_port()},") as service:
        for port in service.ports:
            wait_for("a process with several hosts that is ready", lambda: service.readiness(port)[0] == 200)

    others = ["lists", "streams", "probe"]
    expect_refusal(folder, re.sub(r" connect_query=.*", "", file), "settings", others)
    expect_refusal(folder, re.sub(r"(max_prepared_statements) = .*", r"\1 = 0", file), "prepared statements", others)
    return counted


with tempfile.TemporaryDirectory() as made:
    made = pathlib.Path(made)
    made.chmod(0o711)
    try:
        counted = main(made)
    except BaseException:
        for log in made.glob("*.log"):
            print(f"--- end of {log.name}:\n{log.read_text()[-3000:]}")
        raise
    finally:
        psql(url("postgres"), f'DROP DATABASE IF EXISTS "{DATABASE}" WITH (FORCE)')
print(f"behind PgBouncer, every pool keeps its settings, and nothing failed: {counted}; one that loses something is named")
