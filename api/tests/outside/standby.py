"""An api process beside a standby of Postgres (STANDBY_PORT): it answers what only reads, refuses changes for the moment, and
writes as soon as its Postgres has been promoted."""

import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import world
from local import free_port, wait_for

USER = os.environ["USER_TOKEN"]


def product(number):
    return {
        "organisation": os.environ["ORGANISATION_ID"], "eshops": [os.environ["ESHOP_ID"]], "productSku": f"STANDBY-{number}",
        "internalSku": str(number), "name": "Harbour mug", "imeiCheckRequired": False, "active": True,
    }


def create(number):
    """Its status, and when to come again."""
    try:
        return world.call("POST", "/api/product", USER, product(number))[0], None
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers.get("Retry-After")


def listed():
    try:
        return world.call("POST", "/api/product/list", USER)[1]["results"]
    except urllib.error.HTTPError as refusal:
        # the token has not been replicated yet
        assert refusal.code == 401, refusal
        return None


def is_ready():
    try:
        with urllib.request.urlopen(world.BASE_URL + "/health/ready", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


primary = urllib.parse.urlsplit(os.environ["DATABASE_URL"])
standby = primary._replace(netloc=primary.netloc.replace(f":{primary.port}", ":" + os.environ["STANDBY_PORT"])).geturl()
id = world.call("POST", "/api/product", USER, product(1))[1]["id"]
address = f"127.0.0.1:{free_port()}"
serving = subprocess.Popen(
    [os.environ["PROGRAMS"] + "/longshore-api", "serve"],
    env={**os.environ, "DATABASE_URL": standby, "LONGSHORE_BIND": address}, stderr=subprocess.DEVNULL,
)
try:
    world.BASE_URL = f"http://{address}"
    wait_for("the api at the standby", is_ready)
    # what was written before it was asked for is there once it has been replicated
    page = wait_for("the product", listed)
    assert [found["id"] for found in page] == [id], page
    assert world.call("GET", f"/api/product/{id}", USER)[0] == 200
    status, again = create(2)
    assert status == 503 and again, (status, again)

    subprocess.run(["psql", "-qtAX", "-c", "SELECT pg_promote()", standby], check=True, stdout=subprocess.DEVNULL)
    wait_for("a change", lambda: create(2)[0] == 201)
finally:
    serving.terminate()
    serving.wait()
print("a process at a standby reads, refuses changes, and writes once it is promoted")
