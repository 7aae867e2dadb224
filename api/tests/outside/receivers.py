"""The receivers of docs/quick-start/receivers, which get the same changes in an order of their own: late, alone and in a batch, shuffled,
cut off in the middle, and killed meanwhile. What each has kept in the end is what the service holds, also after it has heard of changes that are
lost since the service was restored.

The changes are real: syncs beside updates beside switches beside counts of stocks, as a webhook of the service tells of them."""

import base64
import hmac
import http.client
import json
import os
import pathlib
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pages import ROOT, free_port, listens
from world import call

PRODUCTS, SECONDS, PATIENCE = 30, 8, 60
USER, SUPERADMIN = os.environ["USER_TOKEN"], os.environ["SUPERADMIN_TOKEN"]
ORGANISATION, ESHOP, WAREHOUSE = os.environ["ORGANISATION_ID"], os.environ["ESHOP_ID"], os.environ["WAREHOUSE_ID"]
RECEIVERS = {
    "receiver.mjs": ("node", lambda program, port: ["node", program]),
    "receiver.py": ("python3", lambda program, port: ["python3", program]),
    "receiver.php": ("php", lambda program, port: ["php", "-S", f"127.0.0.1:{port}", program]),
}
PATHS = {"organization_change": "/api/organisation", "product_change": "/api/product",
         "product_stock_change": "/api/product-stock", "sync_finished": "/api/job", "job_finished": "/api/job",
         "expedition_status_change": "/api/expedition", "expedition_change": "/api/expedition"}
SYNC = "/api/partner-integration/eshop/sync/"


class Recorder(ThreadingHTTPServer):
    """Keeps every delivery as it came; one in twenty is not answered well the first time, and comes again in five seconds."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        self.deliveries, self.came, self.lock, self.chance = {}, set(), threading.Lock(), random.Random(7)
        super().__init__(("127.0.0.1", 0), Recording)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Recording(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name: self.headers[name] for name in
                   ["content-type", "webhook-id", "webhook-timestamp", "webhook-signature"]}
        with self.server.lock:
            self.server.deliveries.setdefault(self.path, {})[headers["webhook-id"]] = (headers, body)
            refused = headers["webhook-id"] not in self.server.came and self.server.chance.random() < 0.05
            self.server.came.add(headers["webhook-id"])
        self.send_response(500 if refused else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def change_everything():
    """What a busy shop does to its products for some seconds."""
    def create(n):
        body = {"organisation": ORGANISATION, "eshops": [ESHOP], "productSku": f"S{n}", "internalSku": f"S{n}", "name": "at first",
                "imeiCheckRequired": False, "active": True}
        return call("POST", "/api/product", USER, body)[1]["id"]

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(create, range(PRODUCTS)))
    until = time.monotonic() + SECONDS

    def syncs():
        round = 0
        while time.monotonic() < until:
            round += 1
            rows = [{"productSku": f"S{n}", "name": f"sync {round}", "weight": round, "active": round % 2 == 0}
                    for n in range(PRODUCTS)]
            call("POST", SYNC + "products", USER, {"eshop": ESHOP, "products": rows}, {"Prefer": "wait=1"})

    def counts():
        round = 0
        while time.monotonic() < until:
            round += 1
            rows = [{"productSku": f"S{n}", "quantity": round} for n in range(PRODUCTS)]
            body = {"eshop": ESHOP, "warehouseId": WAREHOUSE, "stocks": rows}
            call("POST", SYNC + "product-stocks", USER, body, {"Prefer": "wait=1"})

    def updates(seed):
        chance = random.Random(seed)
        while time.monotonic() < until:
            body = chance.choice([
                {"name": f"put {chance.random()}"}, {"weight": chance.randrange(1000)}, {"description": None},
                {"description": f"put {chance.random()}"}, {"length": chance.randrange(1000), "width": None},
                {"referenceNumbers": [f"{n:03}" * 85 for n in range(chance.randrange(60, 100))]},
            ])
            call("PUT", f"/api/product/{chance.choice(ids)}", USER, body)

    def switches(seed):
        chance = random.Random(seed)
        while time.monotonic() < until:
            call("PUT", f"/api/product/{chance.choice(['activate', 'deactivate'])}/{chance.choice(ids)}", USER)

    def bulk():
        active = False
        while time.monotonic() < until:
            active = not active
            call("PUT", f"/api/product/{'activate' if active else 'deactivate'}", USER, ids, {"Prefer": "wait=1"})

    def renames():
        round = 0
        while time.monotonic() < until:
            round += 1
            call("PUT", f"/api/organisation/{ORGANISATION}", SUPERADMIN, {"code": f"round {round}"})
            service = "/api/product/{}/service/inbound_localisation_check".format(ids[round % len(ids)])
            call("PUT", service, SUPERADMIN)
            time.sleep(0.05)

    work = [syncs, counts, bulk, renames] + [lambda n=n: updates(n) for n in range(3)] + [lambda n=n: switches(n) for n in range(2)]
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result()
    # events of an order that is gone when they arrive; its note is in none of them
    call("PUT", f"/api/product/activate/{ids[0]}", USER)
    body = {"eshop": ESHOP, "orderNumber": "gone", "value": 1, "currency": "EUR", "items": [{"product": ids[0], "quantity": 1}]}
    there = call("POST", "/api/expedition", USER, {**body, "orderNumber": "there"})[1]["id"]
    gone = call("POST", "/api/expedition", USER, body)[1]["id"]
    call("PUT", f"/api/expedition/{gone}", USER, {"note": "soon gone"})
    call("DELETE", f"/api/expedition/{gone}", USER)
    return ids, gone, there


def settled(hooks):
    """Waits until every job has ended and every delivery has arrived."""
    open_jobs = {"criteria": {"state": {"in": ["receiving", "queued", "running", "retrying"]}}, "limit": 0}
    pending = {"criteria": {"webhook": {"in": hooks}, "state": {"neq": "delivered"}}, "limit": 0}
    until = time.monotonic() + PATIENCE
    for path, body in [("/api/job/list", open_jobs), ("/api/webhook-delivery/list", pending)]:
        while (left := call("POST", path, USER, body)[1]["paging"]["total"]) > 0:
            assert time.monotonic() < until, f"{left} of {path} are left"
            time.sleep(0.2)


def signed(secret, id, body):
    """A delivery that is signed now."""
    now, key = str(int(time.time())), base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.digest(key, f"{id}.{now}.".encode() + body, "sha256")).decode()
    return {"content-type": "application/json", "webhook-id": id, "webhook-timestamp": now, "webhook-signature": f"v1,{signature}"}, body


class Program:
    """A receiver of the page, in a folder of its own."""

    def __init__(self, name, text, secret, folder):
        self.name, self.folder, self.secret = name, pathlib.Path(folder), secret
        _, self.command = RECEIVERS[name]
        self.port = free_port()
        (self.folder / name).write_text(text)
        self.running = None

    def start(self):
        environment = {**os.environ, "WEBHOOK_SECRET": self.secret, "PORT": str(self.port), "NO_PROXY": "*"}
        with open(self.folder / "log", "ab") as log:
            self.running = subprocess.Popen(self.command(self.name, self.port), cwd=self.folder, env=environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while not listens(self.port):
            assert self.running.poll() is None and time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.02)

    def kill(self):
        self.running.kill()
        self.running.wait()

    def tell(self, delivery):
        """Sends it as the service did; whether it was taken."""
        headers, body = delivery
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", "/", body, headers)
            return connection.getresponse().status == 204
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def hear(self, id, kind, data):
        """Sends an event that the service has not sent, signed as it signs."""
        body = json.dumps({"id": id, "type": kind, "timestamp": "2026-01-31T12:30:00.000000+00:00", "data": data}).encode()
        assert self.tell(signed(self.secret, "hand", body)), (self.folder / "log").read_text()

    def break_off(self, delivery):
        """Sends half of it, and hangs up."""
        headers, body = delivery
        head = "".join(f"{name}: {value}\r\n" for name, value in {**headers, "content-length": len(body)}.items())
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as gone:
            gone.sendall(f"POST / HTTP/1.1\r\nhost: shop\r\n{head}\r\n".encode() + body[: len(body) // 2])

    def kept(self):
        """What it has kept: record, field, value."""
        if self.name == "receiver.py":
            with sqlite3.connect(self.folder / "records.db") as store:
                rows = store.execute("SELECT record, name, value FROM field").fetchall()
            return {(record.rpartition("/")[2], name): json.loads(value) for record, name, value in rows}
        return {(file.stem.rpartition(".")[2], name): field["value"] for file in self.folder.glob("*records/*.json")
                for name, field in json.loads(file.read_text()).items()}


def tell_all(program, deliveries, seed):
    """All of them in an order of their own, four at a time; some break off, and it is killed three times."""
    chance = random.Random(seed)
    left = list(deliveries)
    chance.shuffle(left)
    kills = [len(left) * part // 4 for part in [3, 2, 1]]
    program.start()
    with ThreadPoolExecutor(4) as pool:
        while left:
            if kills and len(left) <= kills[0]:
                kills.pop(0)
                flying = [pool.submit(program.tell, delivery) for delivery in left[:8]]
                program.kill()
                for each in flying:
                    each.result()
                program.start()
            batch, left = left[:40], left[40:]
            if chance.random() < 0.3:
                program.break_off(chance.choice(batch))
            taken = list(pool.map(program.tell, batch))
            # what was not taken comes again, later
            left += [delivery for delivery, done in zip(batch, taken) if not done]
    assert not kills, "there were too few deliveries"
    program.kill()


def restore(receiver, product, there):
    """It has heard of a change, of a record and of a deletion that are lost; then, that the service was restored."""
    receiver.start()
    unknown = "01a1ff04-c618-7736-a03e-b37b215fbe0f"
    for record in [product["id"], unknown]:
        lost = {"id": record, "version": product["version"] + 5, "changedFields": ["name"], "fields": {"name": "lost"}}
        receiver.hear(record, "product_change", lost)
        assert receiver.kept()[record, "name"] == "lost", receiver.name
    receiver.hear(there, "expedition_deleted", {"id": there, "version": 9, "orderNumber": "there"})
    assert receiver.kept()[there, "deleted"] is True, receiver.name
    data = {"id": ESHOP, "at": "2026-01-31T12:30:00.000000+00:00", "since": "2026-01-31T09:00:00.000000+00:00", "epoch": 2}
    receiver.hear(ESHOP, "restored", data)
    assert not any(record == unknown for record, _ in receiver.kept()), f"{receiver.name} keeps what is lost"
    assert (there, "deleted") not in receiver.kept(), f"{receiver.name} keeps a deletion that is lost"
    later = {"id": product["id"], "version": product["version"] + 1, "changedFields": ["name"], "fields": {"name": "later"}}
    receiver.hear(product["id"], "product_change", later)
    assert receiver.kept()[product["id"], "name"] == "later", f"{receiver.name} keeps the version of what is lost"
    receiver.hear(ESHOP, "restored", data)
    return receiver.kept()


def main():
    programs = {file.name: file.read_text() for file in (ROOT / "docs/quick-start/receivers").iterdir()}
    assert programs.keys() == RECEIVERS.keys(), programs.keys()
    recorder = Recorder()
    body = {"eshop": ESHOP, "event": "*", "destination": f"http://127.0.0.1:{recorder.server_port}/"}
    hook = call("POST", "/api/eshop-webhook", USER, body)[1]
    batch = {"destination": body["destination"] + "batches", "batch": {"maxEvents": 50, "maxWaitMs": 200}}
    batching = call("POST", "/api/eshop-webhook", USER, {**body, **batch})[1]
    ours, gone, there = change_everything()
    settled([hook["id"], batching["id"]])
    deliveries = list(recorder.deliveries["/"].values())
    batches = [signed(hook["secret"], id, body) for id, (_, body) in recorder.deliveries["/batches"].items()]
    assert 10 * len(batches) < len(deliveries), f"{len(batches)} batches of {len(deliveries)} events"
    batched = {event["webhookId"] for _, body in batches for event in json.loads(body)["events"]}
    alone = {headers["webhook-id"] for headers, _ in deliveries}
    assert batched == alone, f"alone: {sorted(alone - batched)[:5]}, in a batch: {sorted(batched - alone)[:5]}"
    events = [json.loads(body) for _, body in deliveries]
    changes = [event["data"] for event in events if "changedFields" in event["data"]]
    assert any("fields" not in data for data in changes), "none was large"
    records = {}
    for event in events:
        assert event["data"]["version"] >= 1, event
        if event["id"] not in records and event["id"] != gone:
            records[event["id"]] = call("GET", f"{PATHS[event['type']]}/{event['id']}", USER)[1]
    assert any(event["type"] == "expedition_deleted" and event["id"] == gone for event in events), "the order that is gone has no event"
    events = [event for event in events if event["id"] != gone]
    for event in events:
        if event["data"]["version"] == records[event["id"]]["version"]:
            assert event["timestamp"] == records[event["id"]]["changedAt"], event
    sent = {(event["id"], field) for event in events for field in event["data"].get("changedFields", [])}
    ran = 0
    for seed, (name, text) in enumerate(programs.items()):
        program = RECEIVERS[name][0]
        if not shutil.which(program):
            print(f"!!! SKIPPED: {name}, since {program} is not installed", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="longshore-receiver-") as folder:
            receiver = Program(name, text, hook["secret"], folder)
            try:
                tell_all(receiver, deliveries + batches, seed)
                kept = receiver.kept()
                restored = restore(receiver, records[ours[0]], there)
            finally:
                receiver.kill()
            log = (receiver.folder / "log").read_text()
        assert kept.get((gone, "deleted")) is True, f"{name} has not heard that the order is gone"
        missing = sent - kept.keys()
        assert not missing, f"{name} knows nothing of {sorted(missing)[:5]}\n{log[-2000:]}"
        wrong = [(record, field, value, records[record].get(field))
                 for (record, field), value in [*kept.items(), *restored.items()]
                 if record != gone and records[record].get(field) != value]
        assert not wrong, f"{name} holds {len(wrong)} wrong values, such as {wrong[:5]}"
        assert {record for record, _ in restored} == {record for record, _ in kept}, f"{name} has lost records"
        assert [name for record, name in restored if record == gone] == ["deleted"], f"{name} keeps more of what is gone"
        # of our own products it knows everything
        for product in ours:
            for field, value in records[product].items():
                known = kept.get((product, field))
                assert field in ["id", "organisation", "createdAt", "changedAt", "version"] or (known or None) == (value or None), \
                    f"{name}: {field} of {product} is {value}, not {known}"
        print(f"{name}: {len(deliveries)} events alone and in {len(batches)} batches, shuffled, broken off, killed thrice; restored; {len(kept)} fields are right")
        ran += 1
    assert ran, "no receiver could be run"


if __name__ == "__main__":
    main()
