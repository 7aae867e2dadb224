"""Receives webhooks of Longshore in Python: docs/quick-start/eshop.md"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
PATHS = {
    "organization_change": "/api/organisation",
    "product_change": "/api/product",
    "product_stock_change": "/api/product-stock",
    "stock_advice_status_change": "/api/stock-advice",
    "expedition_status_change": "/api/expedition",
    "expedition_booked_change": "/api/expedition",
    "expedition_change": "/api/expedition",
    "expedition_deleted": "/api/expedition",
}
store = sqlite3.connect("records.db")
# A record is its path, as in /api/product/0192a1b2-7000-7000-8000-000000000005.
store.execute("""CREATE TABLE IF NOT EXISTS field (record TEXT, name TEXT, version INTEGER NOT NULL, value TEXT NOT NULL,
                                                   PRIMARY KEY (record, name))""")


def verified(headers, body):
    timestamp = headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > 300:
        return False
    signed = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(given.encode(), expected.encode())
               for given in headers.get("webhook-signature", "").split(" "))


def read(path):
    request = urllib.request.Request(os.environ["BASE_URL"] + path)
    request.add_header("Authorization", f"Bearer {os.environ['USER_TOKEN']}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            record = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code not in (404, 410):
            raise
        return None, {}  # it was deleted, or lost by a restore
    return record["version"], record


def take(record, version, fields):
    """Stores the fields with a newer version than the stored one; returns their names."""
    with store:
        return [name for name, value in fields.items() if store.execute(
            """INSERT INTO field VALUES (?, ?, ?, ?) ON CONFLICT (record, name)
               DO UPDATE SET version = excluded.version, value = excluded.value WHERE version < excluded.version""",
            [record, name, version, json.dumps(value)],
        ).rowcount]


def read_again():
    """The service was set back to a backup: the stored versions may be of changes that are lost."""
    with store:
        store.execute("UPDATE field SET version = 0")
    for record, in store.execute("SELECT DISTINCT record FROM field WHERE record LIKE '/api/%'").fetchall():
        version, fields = read(record)
        with store:  # one that is there is not deleted; of one that is not, no more is kept than that
            store.execute("DELETE FROM field WHERE record = ? AND (name = 'deleted') = ?", [record, bool(fields)])
        take(record, version, fields)


def handle(event):
    if event.get("test"):
        return print("test", event["type"], flush=True)
    if event["type"] == "restored":
        read_again()
    data, names = event["data"], []
    if event["type"] == "expedition_deleted":  # kept as such: an older event may come after it
        data |= {"changedFields": ["deleted"], "fields": {"deleted": True}}
    if "changedFields" in data:
        record = PATHS.get(event["type"], event["type"]) + "/" + event["id"]
        is_whole = all(name in data.get("fields", {}) for name in data["changedFields"])
        version, fields = (data["version"], data["fields"]) if is_whole else read(record)
        names = take(record, version, fields)
        if not names:
            return
    print(event["type"], event["id"], ",".join(names), flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not verified(self.headers, body):
            return self.answer(401)
        content = json.loads(body)
        for event in content["events"] if content["type"] == "batch" else [content]:
            handle(event)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9090"))), Receiver).serve_forever()
