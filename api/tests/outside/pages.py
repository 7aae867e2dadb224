"""Runs what a page of `docs/` shows, in order, beside a service of its own. Argument: the page.

    ```sh                           runs in the page's one shell; what fails ends the page
    ```sh background=N wait=9090    "in another terminal", a shell of its own: goes on until the page ends; waited for until it listens
    ```text                         after one of these: what it printed; `…` stands for anything, lines between may differ
    ```text of=N                    what the background command N prints, sooner or later
    ```LANGUAGE file=NAME           is written to that file
    ```text picture                 is only looked at; ```json is JSON
    ```console                      needs systemd, a Docker engine or other machines (a block with `ssh`), or is `./dev`, which runs this:
                                    not run; it starts nothing else. compose.py runs those of Docker, on an engine of its own
    ```sql                          for a superuser of Postgres, once: not run

`needs=PROGRAM` passes a block over, loudly, where there is no such program. The shell is as new as that of a reader: its
environment is what a login gives, and its folder a checkout with `.dev/env` as `./dev up` writes it (ENV_FILE names that file).
Whatever else a page needs, it says. No block waits for ever. Ports from 9090 on are exchanged for free ones."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from local import free_port

ROOT = pathlib.Path(__file__).resolve().parents[3]
PATIENCE = 120
CHECKOUT = ["docs", "deploy", "docker-compose.yml", "Dockerfile"]
ENDLESS = re.compile(r"\buntil\b|\bwhile (?!.*\bread\b)")
ELSEWHERE = {"docker", "docker-compose", "systemctl", "journalctl", "systemd-analyze", "sudo", "./dev"}


def listens(port):
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def blocks(text):
    """Line, language, the rest of the info string, and content of each fenced block."""
    for found in re.finditer(r"^( *)```(\S+)([^\n]*)\n(.*?)^\1```$", text, re.M | re.S):
        indent, language, info, content = found.groups()
        content = re.sub(rf"^{indent}", "", content, flags=re.M)
        words = dict((word.split("=", 1) + [""])[:2] for word in info.split())
        yield text[: found.start()].count("\n") + 1, language, words, content


def of_a_login():
    """The environment of a shell that somebody has just opened."""
    known = {"HOME": os.path.expanduser("~"), "TERM": "dumb"}
    login = subprocess.run(["bash", "-lc", 'echo "$PATH"'], env=known, capture_output=True, text=True, check=True)
    return {**known, "PATH": login.stdout.splitlines()[-1]}


def as_pattern(expected):
    """Lines in this order; `…` in a line is anything in it, a line of it alone any lines."""
    lines = []
    for line in expected.rstrip("\n").split("\n"):
        lines.append(r"(?:.*\n)*?" if line.strip() == "…" else r".*?".join(map(re.escape, line.split("…"))) + r"[ \t]*\n")
    return re.compile(r"\A" + "".join(lines) + r"\Z")


class Shell:
    """One bash for the whole page, which keeps its variables from block to block."""

    def __init__(self, folder):
        self.folder, self.count, self.shells = folder, 0, []
        (folder / "blocks").mkdir()
        self.environment = {**of_a_login(), "HOME": str(folder / "work")}
        self.bash = self.open(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
        self.say("set -euo pipefail")

    def open(self, *script, **streams):
        """A shell as somebody opens one in the checkout."""
        shell = subprocess.Popen(["bash", "--noprofile", "--norc", *script], cwd=self.folder / "work", env=self.environment,
                                 start_new_session=True, **streams)
        self.shells.append(shell)
        return shell

    def say(self, line):
        self.bash.stdin.write(line + "\n")
        self.bash.stdin.flush()

    def paths(self, content):
        self.count += 1
        base = self.folder / "blocks" / str(self.count)
        base.with_suffix(".sh").write_text(content)
        return base.with_suffix(".sh"), base.with_suffix(".out"), base.with_suffix(".err"), base.with_suffix(".done")

    def run(self, content):
        """What it prints; nothing of it may fail."""
        script, out, err, done = map(str, self.paths(content))
        self.say(f". {shlex.quote(script)} >{out} 2>{err} </dev/null; : >{done}")
        until = time.monotonic() + PATIENCE
        while not os.path.exists(done) and self.bash.poll() is None:
            assert time.monotonic() < until, f"it did not end within {PATIENCE} s:\n{content}"
            time.sleep(0.02)
        printed = pathlib.Path(out).read_text()
        failed = f"it failed:\n{content}\n--- it printed:\n{printed}{pathlib.Path(err).read_text()}"
        assert os.path.exists(done), failed
        return printed

    def start(self, content):
        """Runs beside the page, in a shell of its own; the file of what it prints."""
        script, out, _, _ = self.paths(content)
        with open(out, "w") as printed:
            self.open(str(script), stdin=subprocess.DEVNULL, stdout=printed, stderr=printed)
        return out

    def end(self):
        for shell in self.shells:
            try:
                os.killpg(shell.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            shell.wait()


class Page:
    def __init__(self, path, folder):
        self.text = path.read_text()
        self.folder, self.ports = folder, {}
        work = folder / "work"
        (work / ".dev").mkdir(parents=True)
        if "ENV_FILE" in os.environ:
            shutil.copy(os.environ["ENV_FILE"], work / ".dev/env")
        for name in CHECKOUT:
            (work / name).symlink_to(ROOT / name)
        self.shell = Shell(folder)
        self.background, self.printed, self.ran, self.passed_over = {}, None, 0, []

    def with_free_ports(self, content):
        def free(found):
            if found[0] not in self.ports:
                self.ports[found[0]] = str(free_port())
            return self.ports[found[0]]

        return re.sub(r"\b90[0-9]{2}\b", free, content)

    def run(self):
        for line, language, words, content in blocks(self.text):
            try:
                self.block(language, words, self.with_free_ports(content))
            except AssertionError as fault:
                raise SystemExit(f"line {line}: {fault}") from None
            self.ran += 1

    def block(self, language, words, content):
        assert language != "sh" or not ENDLESS.search(content), f"it may wait for ever:\n{content}"
        needed = words.get("needs")
        if needed and not shutil.which(needed, path=self.shell.environment["PATH"]):
            self.passed_over.append(needed)
            self.printed = None
        elif "file" in words:
            path = self.folder / "work" / words["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        elif language == "sh" and "background" in words:
            out = self.background[words["background"]] = self.shell.start(content)
            if "wait" in words:
                port = int(self.with_free_ports(words["wait"]))
                self.wait(lambda: listens(port), lambda: f"nothing listens at {port}:\n{out.read_text()}")
        elif language == "sh":
            self.printed = self.shell.run(content)
        elif language == "text" and "of" in words:
            out, pattern = self.background[words["of"]], as_pattern("…\n" + content + "…\n")
            self.wait(lambda: pattern.search(out.read_text()), lambda: f"{words['of']} printed:\n{out.read_text()}\ninstead of:\n{content}")
        elif language == "text" and "picture" not in words and self.printed is not None:
            printed = self.printed if self.printed.endswith("\n") else self.printed + "\n"
            assert as_pattern(content).search(printed), f"it printed:\n{printed}\ninstead of:\n{content}"
            self.printed = None
        elif language == "sql" or language == "text" and "picture" in words:
            pass
        elif language == "json":
            json.loads(content)
        elif language == "console" and re.search(r"^\s*ssh ", content, re.M):
            pass
        elif language == "console":
            for command in re.sub(r"\\\n", "", content).splitlines():
                words = command.split("#")[0].split()
                assert not words or ELSEWHERE.intersection(words), f"{command} could be run here"
        else:
            raise AssertionError(f"a block of {language} is neither run nor a file")

    def wait(self, asked, otherwise):
        until = time.monotonic() + PATIENCE
        while not asked():
            assert time.monotonic() < until, otherwise()
            time.sleep(0.05)


def main():
    path = ROOT / sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="longshore-page-") as folder:
        page = Page(path, pathlib.Path(folder))
        try:
            page.run()
        finally:
            page.shell.end()
    assert page.ran, f"{path} has no blocks"
    for program in sorted(set(page.passed_over)):
        print(f"!!! SKIPPED: what needs {program}, which is not installed", file=sys.stderr)
    print(f"{sys.argv[1]}: {page.ran - len(page.passed_over)} blocks hold")


if __name__ == "__main__":
    main()
