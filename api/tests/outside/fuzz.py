"""Schemathesis against the served document, in all its phases, as superadmin and as connector: no failure of the service,
no status and no answer that the document does not know. Arguments: seconds for each of the two; further ones are
schemathesis's own."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import world

here = pathlib.Path(__file__).parent
seconds, *further = sys.argv[1:] or ["60"]
folder = pathlib.Path(tempfile.mkdtemp(prefix="longshore-fuzz-"))
document = folder / "openapi.json"


def closed(value):
    """The document with objects that have no further members, as those of this version are: answers have what it says, and no more."""
    if isinstance(value, list):
        return [closed(element) for element in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        value.setdefault("additionalProperties", False)
    return {name: inner if name in ("example", "examples") else closed(inner) for name, inner in value.items()}


document.write_text(json.dumps(closed(world.populated())))
failed = []
for role in ["SUPERADMIN", "CONNECTOR"]:
    print(f"\n==> schemathesis as {role.lower()}", flush=True)
    command = [
        pathlib.Path(sys.executable).parent / "schemathesis", "--config-file", here / "schemathesis.toml", "run", document,
        "--url", world.BASE_URL, "--header", f"Authorization: Bearer {os.environ[role + '_TOKEN']}",
        "--phases", "examples,coverage,fuzzing,stateful", "--seed", "1", "--max-time", seconds, "--no-color",
        *further,
    ]
    if subprocess.run(command, cwd=folder, env={**os.environ, "SCHEMATHESIS_HOOKS": str(here / "hooks.py")}, check=False).returncode != 0:
        failed.append(role.lower())
sys.exit(f"schemathesis found something as {' and '.join(failed)}" if failed else 0)
