"""The table of settings in `docs/operating.md` is what the programs say of themselves; `--write` writes it anew. PROGRAMS
names their folder."""

import os
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/operating.md"
HEAD = "<!-- settings: written by api/tests/outside/settings.py --write -->\n"
END = "<!-- end of settings -->\n"


def settings(*command):
    """Group, variable, default and meaning of each option that has a variable."""
    program = pathlib.Path(os.environ["PROGRAMS"]) / command[0]
    # defaults, not what this environment says
    bare = {"PATH": os.environ["PATH"]}
    text = subprocess.run([program, *command[1:], "--help"], capture_output=True, text=True, check=True, env=bare).stdout
    for part in re.split(r"^(\S.*:)$", text, flags=re.M)[1:]:
        if re.fullmatch(r"\S.*:", part):
            group = part.rstrip(":")
            continue
        for option in re.split(r"^ +(?:-\w, )?--", part, flags=re.M)[1:]:
            # as wide as a terminal, so that anything may be broken anywhere
            words = " ".join(re.sub(r"^\S+( <[^>]*>)?", "", option).split())
            if variable := re.search(r"\[env: (\w+)", words):
                default = re.search(r"\[default: ([^\]]*)\]", words)
                meaning = re.split(r" ?\[env: | Possible values: ", words)[0].rstrip(".")
                if values := re.findall(r"^\s+- (\w+):", option, re.M):
                    meaning += f": {', '.join(values)}"
                yield group, variable[1], default[1] if default else "", meaning


def table():
    """All settings, a table for each group."""
    found = {}
    for process, command in [("api", ["longshore-api"]), ("api", ["longshore-api", "serve"]), ("worker", ["longshore-worker"])]:
        for group, variable, default, meaning in settings(*command):
            group, processes, *_ = found.setdefault(variable, (group, set(), default, meaning))
            processes.add(process)
    assert len(found) > 25, found
    groups = {}
    for variable, (group, processes, default, meaning) in found.items():
        who = "both" if len(processes) == 2 else processes.pop()
        meaning = meaning.replace("|", "\\|")
        groups.setdefault(group, []).append(f"| `{variable}` | {f'`{default}`' if default else '–'} | {who} | {meaning} |\n")
    lines = []
    for group, rows in groups.items():
        lines += [f"\n**{group}**\n\n", "| variable | default | read by | meaning |\n| --- | --- | --- | --- |\n", *rows]
    return "".join(lines) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text()
    before, rest = page.split(HEAD)
    written, after = rest.split(END)
    if "--write" in sys.argv:
        PAGE.write_text(before + HEAD + table() + END + after)
    else:
        assert written == table(), "docs/operating.md: run PROGRAMS=target/debug api/tests/outside/settings.py --write"
        print("docs/operating.md has every setting")
