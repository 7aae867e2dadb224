"""docker-compose.yml, for real but for the engine (engine.py): docs/quick-start/operator.md as somebody with Docker follows it, what
docs/upgrades.md and docs/backup.md say of Compose, dumps and their retention, and TLS in front. PROGRAMS is the folder of ours,
POSTGRES and CADDY those of theirs, COMPOSE the command that reads the file. As root, in namespaces that end with it."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import pages

HERE = pathlib.Path(__file__).resolve().parent
HOST = "longshore.localhost"
ADDRESS = "172.28.80.254"


class Installation(pages.Page):
    """A page whose blocks for Docker are run, too; of another page than the quick start, only those."""

    def follow(self, path, only_docker):
        self.text = (pages.ROOT / path).read_text()
        for line, language, words, content in pages.blocks(self.text):
            # a name for which Caddy asks nobody for a certificate
            content = self.with_free_ports(content.replace("longshore.example.com", HOST))
            try:
                if language == "console" and "docker " in content:
                    self.shell.run(content)
                    self.ran += 1
                elif not only_docker:
                    self.block(language, words, content)
            except AssertionError as fault:
                raise SystemExit(f"{path}, line {line}: {fault}") from None

    def sh(self, script):
        return self.shell.run(script).strip()


def dumps(page):
    """The backups keep what they should: a wrong password costs nothing, a success removes what is old."""
    backup = "docker compose run --rm --no-deps"
    names = lambda: page.sh(f"{backup} backup ls").split()
    before = names()
    assert before and all(name.endswith(".dump") for name in before), before
    oldest = before[0].replace("longshore-2", "longshore-1")
    page.sh(f"{backup} backup sh -c 'cp {before[0]} {oldest} && touch -d \"15 days ago\" {oldest} && touch unfinished.new'")
    page.sh(f"! {backup} -e PGPASSWORD=wrong backup backup now")
    assert oldest in names(), "a failure removed a dump"
    page.sh(f"{backup} backup backup now")
    left = names()
    assert oldest not in left and set(before) < set(left) and "unfinished.new" not in left, left
    page.sh(f"{backup} backup backup is-fresh")
    page.sh(f"{backup} backup sh -c 'touch -d \"26 hours ago\" *.dump'")
    page.sh(f"! {backup} backup backup is-fresh")
    found = page.sh("""docker compose ps | awk '$1 == "backup-1" { print $2 }'; ls -l backups/*.dump | cut -c1-10""").split()
    assert found[0] in {"healthy", "unhealthy"} and set(found[1:]) == {"-rw-------"}, found


class Caller:
    """Somebody beyond Caddy."""

    def __init__(self, certificate, source):
        self.context, self.source = ssl.create_default_context(cafile=certificate), source

    def connect(self):
        plain = socket.create_connection((ADDRESS, 443), timeout=30, source_address=(self.source, 0))
        connection = http.client.HTTPConnection(HOST)
        connection.sock = self.context.wrap_socket(plain, server_hostname=HOST)
        return connection

    def ask(self, method, path, body=None, **headers):
        connection = self.connect()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        return connection.getresponse()


def caddy(page):
    """TLS, the address of the caller, and streams in both directions."""
    engine = pathlib.Path(os.environ["ENGINE"])
    certificate = engine / "volumes/caddy/caddy/pki/authorities/local/root.crt"
    page.wait(certificate.exists, lambda: f"Caddy has made no certificate: {(engine / 'caddy-1.log').read_text()}")
    caller = Caller(certificate, "172.28.80.1")

    def answers():
        with contextlib.suppress(OSError):
            return caller.ask("GET", "/health/ready").status == 200

    page.wait(answers, lambda: f"no answer: {(engine / 'caddy-1.log').read_text()}")
    answer = caller.ask("GET", "/health/live")
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000", answer.headers
    assert caller.ask("GET", "/metrics").status == 404
    redirected = http.client.HTTPConnection(ADDRESS, source_address=("172.28.80.1", 0))
    redirected.request("GET", "/console", headers={"Host": HOST})
    assert redirected.getresponse().headers["Location"] == f"https://{HOST}/console"

    # a session has the address of its login: what a caller says of itself does not count
    login = {"login": "jana@harbour.example", "password": "correct horse battery staple"}
    token = json.load(caller.ask("POST", "/api/login/admin", login, X_Forwarded_For="203.0.113.9"))["token"]
    bearer = f"Bearer {token}"
    sessions = json.load(caller.ask("POST", "/api/session/list", {"sort": [{"field": "createdAt", "order": "DESC"}], "limit": 1}, Authorization=bearer))
    assert sessions["results"][0]["address"] == "172.28.80.1", sessions

    # an upload whose end is not sent yet is there, row by row
    eshop = page.sh('echo "$eshop"')
    upload = caller.connect()
    upload.putrequest("POST", "/api/partner-integration/eshop/sync/products")
    for name, value in [("Authorization", "Bearer " + page.sh('echo "$connector"')), ("Content-Type", "application/x-ndjson"),
                        ("Prefer", "respond-async"), ("Transfer-Encoding", "chunked")]:
        upload.putheader(name, value)
    upload.endheaders()

    def send(text):
        upload.send(f"{len(text.encode()):x}\r\n{text}\r\n".encode())

    def job():
        wanted = {"criteria": {"state": {"eq": "receiving"}}, "limit": 1}
        found = json.load(caller.ask("POST", "/api/job/list", wanted, Authorization=bearer))["results"]
        return found and found[0]["id"]

    send(json.dumps({"eshop": eshop}) + "\n")
    rows = 0
    until = time.monotonic() + 30
    while not job():
        assert time.monotonic() < until, f"of {rows} rows no one arrived"
        for _ in range(200):
            rows += 1
            send(json.dumps({"productSku": f"CADDY-{rows}", "name": "Harbour mug"}) + "\n")

    # the events of that job come while it goes on
    events = caller.connect()
    events.request("GET", f"/api/job/{job()}/events", headers={"Authorization": bearer})
    stream = events.getresponse()
    assert stream.headers["Content-Type"].startswith("text/event-stream"), stream.headers
    assert stream.readline().strip(), "no event came before the job ended"
    upload.send(b"0\r\n\r\n")
    assert upload.getresponse().status == 202
    told = stream.read().decode()
    assert "succeeded" in told, told

    # a caller waits while the container of the api is replaced
    page.sh("docker compose stop api")
    waiting = caller.connect()
    waiting.request("GET", "/health/live")
    page.sh("docker compose up --detach --no-deps api")
    answer = waiting.getresponse()
    assert answer.status == 200, answer.status


def main():
    with tempfile.TemporaryDirectory(prefix="longshore-compose-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        engine = folder / "engine"
        engine.mkdir()
        os.environ["ENGINE"] = str(engine)
        os.environ["PATHS"] = os.environ["POSTGRES"] + ":" + os.environ["CADDY"]
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        page = Installation(pages.ROOT / "README.md", folder)
        work = folder / "work"
        program = folder / "bin/docker"
        program.parent.mkdir()
        kept = " ".join(f"{name}='{os.environ[name]}'" for name in ["ENGINE", "PATHS", "PROGRAMS", "COMPOSE", "PATH"])
        program.write_text(f'#!/bin/sh\nexec env {kept} {sys.executable} {HERE}/engine.py "$@"\n')
        program.chmod(0o755)
        try:
            page.sh(f"PATH={program.parent}:$PATH")
            # no balancer is to notice a stop
            (work / ".env").write_text("LONGSHORE_DRAIN_SECONDS=0\n")
            started = time.monotonic()
            page.follow("docs/quick-start/operator.md", only_docker=False)
            print(f"the quick start: {time.monotonic() - started:.0f} s", flush=True)
            for path in ["docs/upgrades.md", "docs/backup.md"]:
                page.follow(path, only_docker=True)
            print(f"upgrade, backup, restore: {time.monotonic() - started:.0f} s", flush=True)
            dumps(page)
            print(f"dumps and their retention: {time.monotonic() - started:.0f} s", flush=True)
            caddy(page)
        except BaseException:
            for log in sorted(engine.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-1500:]}", file=sys.stderr)
            raise
        finally:
            page.shell.end()
            # the containers: this is the first process of a namespace
            os.kill(-1, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.wait()
    print(f"docker-compose.yml holds: {page.ran} blocks for Docker, in {time.monotonic() - started:.0f} s")
    print("!!! SKIPPED: the profile monitoring: Debian has no Grafana; check `monitoring` runs its rules and its dashboard")


if __name__ == "__main__":
    if "INSIDE" not in os.environ:
        alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
        os.execvpe(alone[0], [*alone, sys.executable, *sys.argv], {**os.environ, "INSIDE": "1"})
    main()
