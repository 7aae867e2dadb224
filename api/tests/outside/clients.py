"""Clients that generators make of the served document: each is generated, compiled, and drives ten operations of the running
service. Arguments: the clients. `CLIENT_TOOLS` is the folder with the npm packages of `clients/package.json`."""

import concurrent.futures
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import world

HERE = pathlib.Path(__file__).resolve().parent / "clients"
BIN = pathlib.Path(sys.executable).parent
FLAGS = ["--strict", "--target", "es2022", "--module", "commonjs", "--lib", "es2022,dom,dom.iterable"]
# what the service itself must not need: no tests, no pages
# a form that is not the only body of its operation is a model, too
PARTS = "apis,models,webhooks,supportingFiles,skipFormModel=false,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
PACKAGING = "clients"


def run(folder, *command, **environment):
    """Runs a command; it fails with all that it printed."""
    ended = subprocess.run(
        list(map(str, command)), cwd=folder, env={**os.environ, **environment}, text=True, capture_output=True, check=False,
    )
    if ended.returncode != 0:
        shown = [line for line in (ended.stdout + ended.stderr).splitlines() if " INFO " not in line]
        raise SystemExit(f"{command[0]} failed:\n" + "\n".join(shown[-60:]))
    return ended.stdout


def npm(name):
    return pathlib.Path(os.environ["CLIENT_TOOLS"]) / "node_modules/.bin" / name


def openapi_generator(folder, document, generator):
    jar = pathlib.Path(importlib.util.find_spec("openapi_generator_cli").origin).parent / "openapi-generator.jar"
    run(
        folder, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar, "generate", "-i", document, "-g", generator,
        "-o", folder / "generated", "--global-property", PARTS,
    )


def typescript(folder, environment):
    run(folder, npm("tsc"), *FLAGS, "--outDir", "out", "flow.ts")
    run(folder, "node", "out/flow.js", **environment)


def openapi_python_client(folder, document, environment):
    run(folder, BIN / "openapi-python-client", "generate", "--path", document, "--output-path", folder / "generated", "--meta", "none")
    shutil.copy(HERE / "openapi_python_client.py", folder / "flow.py")
    run(folder, BIN / "mypy", "--ignore-missing-imports", "--no-error-summary", "flow.py")
    run(folder, sys.executable, "flow.py", **environment)


def hey_api(folder, document, environment):
    run(
        folder, npm("openapi-ts"), "-i", document, "-o", folder / "generated", "--no-log-file",
        "-p", "@hey-api/client-fetch", "@hey-api/typescript", "@hey-api/sdk",
    )
    shutil.copy(HERE / "hey_api.ts", folder / "flow.ts")
    typescript(folder, environment)


def typescript_fetch(folder, document, environment):
    openapi_generator(folder, document, "typescript-fetch")
    shutil.copy(HERE / "typescript_fetch.ts", folder / "flow.ts")
    typescript(folder, environment)


def php(folder, document, environment):
    openapi_generator(folder, document, "php")
    # it compiles every file before it calls anything
    run(folder, "php", HERE / "php.php", folder / "generated", **environment)


def python(folder, document, environment):
    openapi_generator(folder, document, "python")
    run(folder, sys.executable, "-m", "compileall", "-q", "generated/openapi_client")
    run(folder, sys.executable, HERE / "python.py", PYTHONPATH=str(folder / "generated"), **environment)


CLIENTS = {
    "openapi_python_client": openapi_python_client, "hey_api": hey_api, "typescript_fetch": typescript_fetch, "php": php,
    "python": python,
}


def drive(name, folder, document):
    """Whether a client did it all; it prints in one piece, since others run beside it."""
    started = time.monotonic()
    own = folder / name
    own.mkdir()
    try:
        CLIENTS[name](own, document, {"SKU": f"CLIENT-{name}", "PACKAGING": PACKAGING})
        verdict, done = "generated, compiled, and did ten operations", True
    except SystemExit as failure:
        verdict, done = failure, False
    print(f"{name}: {verdict} ({time.monotonic() - started:.0f} s)", flush=True)
    return done


def main():
    names = sys.argv[1:] or list(CLIENTS)
    world.call(
        "POST", "/api/packaging-option", os.environ["SUPERADMIN_TOKEN"], {"code": PACKAGING, "name": "Padded box"},
    )
    with tempfile.TemporaryDirectory(prefix="longshore-clients-") as folder:
        folder = pathlib.Path(folder)
        document = folder / "openapi.json"
        document.write_text(world.served())
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            done = list(pool.map(lambda name: drive(name, folder, document), names))
    sys.exit(0 if all(done) else "not every client did")


if __name__ == "__main__":
    main()
