"""The image as a container runs it: its programs as its user, without capabilities and on a root that nobody can write to, beside
Postgres (DATABASE_URL, of a superuser) and Redis (REDIS_URL) of this machine. Arguments: the folder of its root, and what buildah
says of it. As root."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.parse

from local import free_port, wait_for

ROOT = pathlib.Path(sys.argv[1])
PROGRAMS = ["longshore", "longshore-api", "longshore-worker"]
HOME = "var/lib/longshore"
PATIENCE = 60
ROLE = "longshore_of_the_image"


# A container has these ports for itself; here others may have them.
PORTS = {"8080": free_port(), "8081": free_port()}


def with_ports(value):
    return re.sub(r"\b808[01]\b", lambda found: str(PORTS[found[0]]), value)


class Image:
    def __init__(self, volume):
        self.config = json.loads(sys.argv[2])["Docker"]["config"]
        self.volume, self.uid = volume, int(self.config["User"])
        users = (line.split(":") for line in (ROOT / "etc/passwd").read_text().splitlines())
        self.gid = next(int(user[3]) for user in users if int(user[2]) == self.uid)
        # a new volume copies the owner and the mode of the folder
        home = (ROOT / HOME).stat()
        assert (home.st_uid, home.st_gid, home.st_mode & 0o777) == (self.uid, self.gid, 0o700), home
        os.chown(volume, self.uid, self.gid)
        volume.chmod(0o700)

    def command(self, words, **given):
        image = dict(pair.split("=", 1) for pair in self.config["Env"])
        environment = {name: with_ports(value) for name, value in {**image, **given}.items()}
        inside = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        user = ["--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
        sandbox = ["--ro-bind", str(ROOT), "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(self.volume), f"/{HOME}", "--chdir", self.config["WorkingDir"]]
        return ["bwrap", *sandbox, "--die-with-parent", *inside, "setpriv", *user, "--", *map(with_ports, words)]

    def run(self, words, **given):
        ran = subprocess.run(self.command(words, **given), capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert ran.returncode == 0, f"{words}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def ready(self, port):
        test = [port if word == "8080" else word for word in self.config["Healthcheck"]["Test"]]
        assert test[0] == "CMD", test
        return subprocess.run(self.command(test[1:]), capture_output=True, check=False).returncode == 0


class Running:
    def __init__(self, image, words, log, **given):
        self.words, self.log = words, log
        self.process = subprocess.Popen(image.command(words, **given), stdout=log, stderr=log)

    def pid(self):
        """That of the program: bwrap waits for it."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return int(pathlib.Path(children).read_text().split()[0])

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def has_no_rights(self, image):
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{self.pid()}/status").read_text().splitlines() if ":\t" in line)
        assert set(status["Uid"].split()) == {str(image.uid)} and set(status["Gid"].split()) == {str(image.gid)}, status
        for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]:
            assert int(status[capabilities], 16) == 0, status
        assert status["NoNewPrivs"].strip() == "1", status

    def stop(self, image):
        os.kill(self.pid(), getattr(signal, image.config.get("StopSignal", "SIGTERM")))
        assert self.process.wait(PATIENCE) == 0, self.said()


def sql(url, *statements):
    words = ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", url]
    for statement in statements:
        words += ["-c", statement]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def built():
    """What is in it, and what is not."""
    for path in ["longshore", "out", "var/lib/apt/lists/partial"]:
        assert not (ROOT / path).exists(), f"/{path} is in the image"
    for path in ["opt", "mnt", "usr/local/cargo"]:
        assert not [file for file in (ROOT / path).rglob("*") if not file.is_dir()], f"/{path} has what only the build may see"
    size = subprocess.run(["du", "-sm", ROOT], capture_output=True, text=True, check=True).stdout.split()[0]
    print(f"the image: {size} MB, with programs of the profile that tests have:")
    for program in PROGRAMS:
        file = ROOT / "usr/local/bin" / program
        content = file.read_bytes()
        for folder in [b"/longshore/api/", b"/longshore/shared/", b"/usr/local/cargo/"]:
            assert folder not in content, f"{program} names {folder.decode()}"
        print(f"  {program}: {len(content) / 1e6:.0f} MB")


def main():
    server = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
    url = server._replace(path="/longshore_of_the_image")
    settings = {"LONGSHORE_ENCRYPTION_KEY": "test:" + "A" * 43 + "=", "REDIS_URL": os.environ["REDIS_URL"], "LONGSHORE_QUEUE_PREFIX": "image:", "LONGSHORE_DRAIN_SECONDS": "0"}
    with tempfile.TemporaryDirectory(prefix="longshore-image-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o711)
        (folder / "volume").mkdir()
        image = Image(folder / "volume")
        built()
        for program in PROGRAMS:
            assert image.run([program, "--version"]).startswith(f"{program} "), program
        refused = subprocess.run(image.command(["touch", "/tmp/x", "/etc/x", "/usr/local/bin/x"]), capture_output=True, text=True, check=False)
        assert refused.stderr.count("Read-only file system") == 3, refused

        sql(server.geturl(), f"CREATE DATABASE {url.path[1:]}")
        image.run(["longshore-api", "migrate"], DATABASE_URL=url.geturl(), **settings)
        sql(url.geturl(), f"CREATE ROLE {ROLE} LOGIN IN ROLE longshore_service")
        settings["DATABASE_URL"] = url._replace(netloc=f"{ROLE}@{url.hostname}:{url.port}").geturl()

        assert not image.ready("8080"), "it is ready before it has started"
        with open(folder / "api", "w") as api, open(folder / "worker", "w") as worker:
            running = [Running(image, image.config["Cmd"], api, **settings), Running(image, ["longshore-worker"], worker, **settings)]
            try:
                for port, program in zip(["8080", "8081"], running):
                    wait_for(f"{program.words}", lambda: image.ready(port) or program.process.poll() is not None, PATIENCE)
                    assert program.process.poll() is None, program.said()
                    program.has_no_rights(image)
                findings = image.run(["longshore-api", "doctor"], **settings)
                assert re.search(r"^ok +objects +/var/lib/longshore/objects is writable$", findings, re.M), findings
                assert re.search(r"^ok +workers ", findings, re.M), findings
                token = image.run(["longshore-api", "token", "create", "--role", "superadmin", "--name", "test"], **settings).strip()
                base = f"http://127.0.0.1:{PORTS['8080']}"
                queues = image.run(["longshore", "queue", "list"], LONGSHORE_URL=base, LONGSHORE_TOKEN=token)
                assert "upkeep" in queues, queues
            finally:
                for program in running:
                    if program.process.poll() is None:
                        program.stop(image)
        assert (folder / "volume/objects").stat().st_uid == image.uid
        sql(server.geturl(), f"DROP DATABASE {url.path[1:]} WITH (FORCE)", f"DROP ROLE {ROLE}")
    print("its programs migrate, serve and work as they should, and write to their volume only")


if __name__ == "__main__":
    main()
