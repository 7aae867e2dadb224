"""The running service as the environment names it, and its document with the ids that the examples really have."""

import json
import os
import urllib.request

BASE_URL = os.environ["BASE_URL"]
# the world of the examples: api/src/openapi/example.rs
EXAMPLE = "0192a1b2-7000-7000-8000-{:012x}"


def call(method, path, token, body=None, headers=()):
    """Sends JSON; answers the status and what came back."""
    request = urllib.request.Request(BASE_URL + path, method=method)
    request.add_header("Authorization", f"Bearer {token}")
    for name, value in dict(headers).items():
        request.add_header(name, value)
    data = None
    if body is not None:
        request.add_header("Content-Type", "application/json")
        data = json.dumps(body).encode()
    with urllib.request.urlopen(request, data, timeout=30) as answer:
        text = answer.read()
        return answer.status, json.loads(text) if text else None


def served():
    """The document as it is served."""
    with urllib.request.urlopen(BASE_URL + "/openapi.json", timeout=30) as answer:
        return answer.read().decode()


def populated():
    """The document, with examples of records that are there."""
    text = served()
    token = os.environ["USER_TOKEN"]
    for number, name in enumerate(["ORGANISATION_ID", "ESHOP_ID", "WAREHOUSE_ID", "WMS_ID"], 1):
        text = text.replace(EXAMPLE.format(number), os.environ[name])

    def example(path):
        body = json.loads(text)["paths"][path]["post"]["requestBody"]
        return body["content"]["application/json"]["example"]

    def first(path):
        return call("POST", path + "/list", token)[1]["results"][0]["id"]

    hook = {**example("/api/eshop-webhook"), "destination": "http://127.0.0.1:1/"}
    text = text.replace(EXAMPLE.format(7), call("POST", "/api/eshop-webhook", token, hook)[1]["id"])
    product = {**example("/api/product"), "productSku": "sample"}
    text = text.replace(EXAMPLE.format(5), call("POST", "/api/product", token, product)[1]["id"])
    text = text.replace(EXAMPLE.format(8), first("/api/webhook-delivery"))
    stocks = {
        "eshop": os.environ["ESHOP_ID"],
        "warehouseId": os.environ["WAREHOUSE_ID"],
        "stocks": [{"productSku": "sample", "quantity": 7}, {"productSku": "nothing", "quantity": 1}],
    }
    path = "/api/partner-integration/eshop/sync/product-stocks"
    job = call("POST", path, token, stocks, {"Prefer": "wait=30"})[1]
    assert job["state"] == "succeeded", job
    text = text.replace(EXAMPLE.format(9), job["id"])
    text = text.replace(EXAMPLE.format(6), first("/api/product-stock"))
    return json.loads(text)
