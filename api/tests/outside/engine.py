"""`docker`, as far as our pages call it, for a machine without an engine: each container of docker-compose.yml is a process with the
command, environment, user, volumes, networks and check of health of that file, in namespaces of its own and with the programs of
this machine. Nothing restarts it, and no limit of memory applies. compose.py makes the machine that this runs in.

ENGINE is its folder, COMPOSE the command that reads the file, PROGRAMS the folder of ours, PATHS those of Postgres and Caddy."""

import hashlib
import ipaddress
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import yaml

ENGINE = pathlib.Path(os.environ["ENGINE"])
PROGRAMS = pathlib.Path(os.environ["PROGRAMS"])
OURS = ["longshore", "longshore-api", "longshore-worker"]
PATIENCE = 90
# What the images of others have, beside a program of Debian: user, environment, command, and the folders of that user.
IMAGES = {
    "postgres": {"user": "postgres", "env": {"PGDATA": "/var/lib/postgresql/data", "POSTGRES_USER": "postgres", "LANG": "C.UTF-8"}},
    "redis": {"user": "root"},
    "caddy": {
        "user": "root",
        "env": {"XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "/config"},
        "command": ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"],
    },
}
# Services of these are left out.
MISSING = ["prom/prometheus", "grafana/grafana"]


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def until(what, asked):
    end = time.monotonic() + PATIENCE
    while not (found := asked()):
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {PATIENCE} s")
        time.sleep(0.05)
    return found


class State:
    """What is there from one call to the next."""

    def __init__(self):
        self.file = ENGINE / "state.json"
        self.known = json.loads(self.file.read_text()) if self.file.exists() else {"containers": {}, "networks": {}, "image": 0, "next": 0}

    def __getattr__(self, name):
        return self.known[name]

    def next(self):
        self.known["next"] += 1
        return self.known["next"]

    def save(self):
        self.file.write_text(json.dumps(self.known, indent=1))


def own_image():
    """What the Dockerfile says of its last stage."""
    stage = pathlib.Path("Dockerfile").read_text().split("\nFROM ")[-1]
    line = lambda word: re.search(rf"^{word} (.*)$", stage, re.M)[1]
    return {
        "user": line("USER"),
        "env": dict(pair.split("=", 1) for pair in line("ENV").split()),
        "command": json.loads(line("CMD")),
        "working_dir": line("WORKDIR"),
        "healthcheck": {"test": ["CMD", *json.loads(re.search(r"^HEALTHCHECK .*CMD (.*)$", stage, re.M)[1])]},
    }


def read(profiles):
    """The file as compose reads it, with what the images add."""
    command = shlex.split(os.environ["COMPOSE"])
    for profile in profiles:
        command += ["--profile", profile]
    # compose takes longer than all the rest of a call
    read_before = ENGINE / hashlib.sha256("\n".join([*profiles, pathlib.Path(".env").read_text()]).encode()).hexdigest()
    if not read_before.exists():
        read_before.write_text(run(*command, "config", capture_output=True, text=True).stdout)
    file = yaml.load(read_before.read_text().replace("$$", "$"), yaml.CSafeLoader)
    for name, service in file["services"].items():
        image = own_image() if service["image"].startswith("longshore:") else IMAGES.get(service["image"].split(":")[0], {})
        given = {key: str(value) for key, value in (service.get("environment") or {}).items() if value is not None}
        service["environment"] = {**image.get("env", {}), **given}
        for key in ["user", "command", "working_dir", "healthcheck"]:
            service.setdefault(key, image.get(key))
        if isinstance(service["command"], str):
            service["command"] = shlex.split(service["command"])
        service["networks"] = {key: value or {} for key, value in service["networks"].items()}
        # with several files, in any order
        service["volumes"] = sorted(service.get("volumes") or [], key=str)
    return file


def network(state, file, name):
    """Its subnet; made when it is first used."""
    if name not in state.networks:
        number = len(state.networks)
        pools = ((file["networks"][name] or {}).get("ipam") or {}).get("config") or [{}]
        subnet = ipaddress.ip_network(pools[0].get("subnet", f"172.28.{200 + number}.0/24"))
        bridge = f"br{number}"
        run("ip", "link", "add", bridge, "type", "bridge")
        run("ip", "address", "add", f"{subnet[1]}/{subnet.prefixlen}", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        state.networks[name] = {"bridge": bridge, "subnet": str(subnet), "services": {}}
    return ipaddress.ip_network(state.networks[name]["subnet"])


def address(state, file, service, name):
    """That of a service in a network, which its first container gets."""
    given = file["services"][service]["networks"][name].get("ipv4_address")
    subnet = network(state, file, name)
    known = state.networks[name]["services"]
    return ipaddress.ip_address(given) if given else subnet[10 + known.setdefault(service, len(known))]


def source(volume, owner):
    """The folder or file of a volume, and its target."""
    if isinstance(volume, dict):
        words = [volume["source"], volume["target"], "ro" if volume.get("read_only") else "rw"]
    else:
        words = (volume.split(":") + ["rw"])[:3]
    if not words[0].startswith("/"):
        folder = ENGINE / "volumes" / words[0]
        if not folder.exists():
            folder.mkdir(parents=True)
            # a new volume copies the owner of the image's folder
            run("chown", owner, folder)
        words[0] = str(folder)
    return words


def sandbox(service, hosts, info):
    """bwrap with the programs of this machine, and nothing else of it."""
    owner = service.get("user") or "root"
    words = ["bwrap", "--info-fd", str(info), "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for link in ["bin", "lib", "lib64", "sbin"]:
        words += ["--symlink", f"usr/{link}", f"/{link}"]
    # what bwrap makes unasked is root's alone
    for folder in ["/etc", "/run", "/var"]:
        words += ["--dir", folder]
    words += ["--symlink", "../run", "/var/run"]
    for file in ["passwd", "group", "nsswitch.conf", "ld.so.cache", "ssl", "alternatives", "localtime", "postgresql-common"]:
        words += ["--ro-bind-try", f"/etc/{file}", f"/etc/{file}"]
    words += ["--ro-bind", str(hosts), "/etc/hosts", "--tmpfs", "/usr/local", "--dir", "/usr/local/bin"]
    for program in OURS:
        words += ["--ro-bind", str(PROGRAMS / program), f"/usr/local/bin/{program}"]
    words += ["--ro-bind", os.path.realpath("deploy/docker/ready"), "/usr/local/bin/ready"]
    for folder in filter(None, os.environ["PATHS"].split(":")):
        words += ["--ro-bind", folder, folder]
    if not service.get("read_only"):
        words += ["--perms", "1777", "--tmpfs", "/tmp", "--perms", "1777", "--tmpfs", "/run/postgresql"]
    for volume in service["volumes"]:
        given, target, mode = source(volume, owner)
        for parent in [*reversed(pathlib.Path(target).parents)][1:]:
            words += [] if parent.is_relative_to("/usr") else ["--dir", str(parent)]
        words += ["--ro-bind" if mode == "ro" else "--bind", given, target]
    words += ["--chdir", service.get("working_dir") or "/"]
    words += ["--remount-ro", "/usr/local"]
    return words + (["--remount-ro", "/"] if service.get("read_only") else [])


def as_its_user(service, command, extra=()):
    environment = {**service["environment"], **dict(extra)}
    environment["PATH"] = f"/usr/local/sbin:/usr/local/bin:{os.environ['PATHS']}:/usr/sbin:/usr/bin:/sbin:/bin"
    words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), "setpriv", "--no-new-privs"]
    user = service.get("user") or "root"
    if user != "root":
        group = user if user.isdigit() else run("id", "-g", user, capture_output=True, text=True).stdout.strip()
        words += ["--reuid", user, "--regid", group, "--clear-groups"]
    if "ALL" in (service.get("cap_drop") or []):
        kept = "".join(f",+{name.lower()}" for name in service.get("cap_add") or [])
        words += ["--inh-caps=-all", f"--bounding-set=-all{kept}"]
    return words + ["--", *command]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def digest(state, service):
    image = state.image if service["image"].startswith("longshore:") else 0
    return hashlib.sha256(json.dumps([service, image], sort_keys=True).encode()).hexdigest()


def start(state, file, name, number=1, command=None, extra=(), **streams):
    """A container; its process."""
    service = file["services"][name]
    id = state.next()
    hold = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    mine = os.readlink("/proc/self/ns/net")
    until("a network", lambda: os.readlink(f"/proc/{hold.pid}/ns/net") != mine)
    inside = ["nsenter", f"--net=/proc/{hold.pid}/ns/net", "--"]
    run(*inside, "ip", "link", "set", "lo", "up")
    hosts, addresses = ["127.0.0.1 localhost"], []
    for place, joined in enumerate(service["networks"]):
        subnet = network(state, file, joined)
        own = address(state, file, name, joined) if number == 1 else subnet[100 + id % 150]
        addresses.append(str(own))
        run("ip", "link", "add", f"v{id}x{place}", "type", "veth", "peer", "name", f"eth{place}", "netns", hold.pid)
        run("ip", "link", "set", f"v{id}x{place}", "master", state.networks[joined]["bridge"], "up")
        run(*inside, "ip", "address", "add", f"{own}/{subnet.prefixlen}", "dev", f"eth{place}")
        # that of its address, as Docker does: neighbours remember it
        run(*inside, "ip", "link", "set", f"eth{place}", "address", "02:42:" + own.packed.hex(":"), "up")
        for other, its in file["services"].items():
            if joined in its["networks"]:
                hosts.append(f"{address(state, file, other, joined)} {other}")
    written = ENGINE / f"hosts-{id}"
    written.write_text("\n".join(hosts) + "\n")
    if name == "postgres":
        initialise(service, inside, written)
    info = ENGINE / f"info-{id}"
    with open(info, "w") as told:
        words = [*inside, *sandbox(service, written, told.fileno()), *as_its_user(service, command or service["command"], extra)]
        process = subprocess.Popen(words, pass_fds=[told.fileno()], **streams)
    text = until("a container", lambda: process.poll() is not None and "{}" or (info.read_text().endswith("}\n") and info.read_text()))
    pid = json.loads(text).get("child-pid", 0)
    return process, {
        "service": name, "number": number, "pid": pid, "monitor": process.pid, "hold": hold.pid, "digest": digest(state, service),
        "addresses": addresses, "forwards": [], "spec": service,
    }


def initialise(service, inside, hosts):
    """What the image of Postgres does with an empty volume."""
    volumes = [source(volume, "postgres") for volume in service["volumes"]]
    data = next(given for given, target, _ in volumes if target == service["environment"]["PGDATA"])
    if os.listdir(data):
        return
    scripts = sorted(target for _, target, _ in volumes if target.startswith("/docker-entrypoint-initdb.d/"))
    script = """set -eu
printf %s "$POSTGRES_PASSWORD" > /tmp/password
initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --no-sync
printf 'host all all all scram-sha-256\\n' >> "$PGDATA/pg_hba.conf"
printf "listen_addresses = '*'\\nunix_socket_directories = '/run/postgresql'\\n" >> "$PGDATA/postgresql.conf"
export PGHOST=/run/postgresql
pg_ctl --wait --options="-c listen_addresses=''" start
for script; do "$script"; done
pg_ctl --wait --mode=fast stop
"""
    with open(ENGINE / "postgres.log", "w") as log, open(os.devnull, "w") as told:
        words = [*inside, *sandbox(service, hosts, told.fileno()), *as_its_user(service, ["sh", "-c", script, "sh", *scripts])]
        run(*words, pass_fds=[told.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def detach(state, file, name, number):
    with open(ENGINE / f"{name}-{number}.log", "ab") as log:
        _, container = start(state, file, name, number, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    for port in container["spec"].get("ports") or []:
        if isinstance(port, dict):
            host, inner = f"{port.get('host_ip', '0.0.0.0')}:{port['published']}", f"{port['target']}/{port.get('protocol', 'tcp')}"
        else:
            host, inner = port.rsplit(":", 1)
        if not inner.endswith("/udp"):
            forward = [sys.executable, __file__, "forward", host, f"{container['addresses'][0]}:{inner.removesuffix('/tcp')}"]
            process = subprocess.Popen(forward, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
            container["forwards"].append(process.pid)
    state.containers[f"{name}-{number}"] = container


def inside(container, command, extra=(), **options):
    """A command in a running container."""
    folder = container["spec"].get("working_dir") or "/"
    words = ["nsenter", "--target", str(container["pid"]), "--mount", "--net", "--", "sh", "-c", 'cd "$0" && exec "$@"', folder]
    return subprocess.run([*words, *as_its_user(container["spec"], command, extra)], check=False, **options)


def is_healthy(container):
    test = (container["spec"].get("healthcheck") or {}).get("test")
    words = ["sh", "-c", test] if isinstance(test, str) else test[1:] if test[0] == "CMD" else ["sh", "-c", test[1]]
    return inside(container, words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def state_of(container):
    if not alive(container["pid"]):
        return "exited"
    test = (container["spec"].get("healthcheck") or {}).get("test")
    return "running" if not test or test == ["NONE"] else "healthy" if is_healthy(container) else "unhealthy"


def stop(state, key):
    container = state.containers.pop(key)
    if alive(container["pid"]):
        os.kill(container["pid"], signal.SIGINT if container["service"] == "postgres" else signal.SIGTERM)
        until(f"the end of {key}", lambda: not alive(container["pid"]))
    for pid in [container["hold"], *container["forwards"]]:
        os.kill(pid, signal.SIGKILL)


def up(state, file, profiles, names, scale, dependencies):
    done = set()

    def raise_up(name, wanted):
        service = file["services"][name]
        if name in done:
            return
        done.add(name)
        if service["image"].split(":")[0] in MISSING:
            return
        for needed, how in (service.get("depends_on") or {}).items() if dependencies else ():
            raise_up(needed, wanted)
            key = f"{needed}-1"
            if how["condition"] == "service_healthy":
                until(f"{needed} healthy", lambda: state_of(state.containers[key]) == "healthy")
            elif how["condition"] == "service_completed_successfully":
                # it runs anew each time, as a container that has ended
                with open(ENGINE / f"{key}.log", "ab") as log:
                    process, container = start(state, file, needed, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                    os.kill(container["hold"], signal.SIGKILL) if process.wait() == 0 else sys.exit(f"{needed} failed: {(ENGINE / f'{key}.log').read_text()}")
        if any((other.get("depends_on") or {}).get(name, {}).get("condition") == "service_completed_successfully" for other in file["services"].values()):
            return
        for number in range(1, scale.get(name, 1) + 1):
            key = f"{name}-{number}"
            there = state.containers.get(key)
            if there and (there["digest"] != digest(state, service) or not alive(there["pid"])):
                stop(state, key)
                there = None
            if not there:
                detach(state, file, name, number)
        for key in [key for key, there in state.containers.items() if there["service"] == name and there["number"] > scale.get(name, 1)]:
            stop(state, key)

    for name, service in file["services"].items():
        chosen = name in names if names else not service.get("profiles") or set(service["profiles"]) & set(profiles)
        if chosen:
            raise_up(name, names)


def main(words):
    state = State()
    if words[:1] == ["tag"] or words[:2] == ["compose", "build"]:
        # check `image` builds it
        state.known["image"] += 1
        return state.save()
    assert words[0] == "compose", words
    profiles, words = [], words[1:]
    while words[0] == "--profile":
        profiles, words = profiles + [words[1]], words[2:]
    command, words = words[0], words[1:]
    options, extra, scale = set(), [], {}
    while words and words[0].startswith("-"):
        if words[0] == "--scale":
            scale[words[1].split("=")[0]], words = int(words[1].split("=")[1]), words[2:]
        elif words[0] == "-e":
            extra, words = extra + [words[1].split("=", 1)], words[2:]
        else:
            options, words = options | {words[0]}, words[1:]
    unknown = options - {"--build", "--detach", "--no-deps", "--rm", "-T"}
    assert not unknown, unknown
    if command == "run":
        # a service that is named needs no profile
        profiles = [*profiles, "backup"]
    file = read(profiles)
    try:
        if command == "up":
            up(state, file, profiles, words, scale, "--no-deps" not in options)
        elif command == "ps":
            for key, container in state.containers.items():
                print(f"{key:12} {state_of(container)}")
        elif command == "stop":
            for key in [key for key, container in state.containers.items() if container["service"] in words]:
                stop(state, key)
        elif command == "run":
            process, container = start(state, file, words[0], 2, words[1:] or None, extra)
            code = process.wait()
            os.kill(container["hold"], signal.SIGKILL)
            return code
        elif command == "exec":
            return inside(state.containers[f"{words[0]}-1"], words[1:], extra).returncode
        elif command == "cp":
            name, path = words[0].split(":")
            container = state.containers[f"{name}-1"]
            shutil.copytree(f"/proc/{container['pid']}/root{path.removesuffix('/.')}", words[1], dirs_exist_ok=True)
        else:
            sys.exit(f"docker compose {command} is not known here")
    finally:
        state.save()


def forward(here, there):
    """Passes connections on, as a published port does."""
    import asyncio

    async def pipe(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            writer.close()

    async def accept(reader, writer):
        host, port = there.split(":")
        try:
            far = await asyncio.open_connection(host, int(port))
        except OSError:
            return writer.close()
        await asyncio.gather(pipe(reader, far[1]), pipe(far[0], writer))
        for end in [writer, far[1]]:
            end.close()

    async def serve():
        host, port = (["0.0.0.0"] + here.split(":"))[-2:]
        async with await asyncio.start_server(accept, host, int(port)) as server:
            await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    if sys.argv[1] == "forward":
        forward(*sys.argv[2:])
    sys.exit(main(sys.argv[1:]))
