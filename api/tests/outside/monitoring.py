"""What `deploy/` watches is there: rules and their tests pass promtool, each metric that a rule or the dashboard names is
exported by the running api or worker with the labels that it is asked by, a real Prometheus evaluates all of it without a
fault, and each alert has a story in which it fires, one in which it does not, and a place in the guide."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import urllib.parse
import urllib.request

import world
from local import free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus"
# There may be no deprecated operation that could be called.
UNCOUNTED = {"longshore_http_deprecated_requests_total"}
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboards/longshore.json").read_text())


def without_comments(path):
    return "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))


def read(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def samples():
    """Every series that the processes tell: the name with the names of its labels."""
    exported = {}
    for url in [world.BASE_URL + "/metrics", os.environ["WORKER_METRICS_URL"]]:
        for name, labels in re.findall(r"^(longshore_\w+)(?:\{(.*)\})? ", read(url), re.M):
            exported.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return exported


def traffic():
    """A job, a call to a destination, a refusal: what is counted only when it happens."""
    hook = {"eshop": os.environ["ESHOP_ID"], "event": "*", "destination": "http://127.0.0.1:1/"}
    world.call("POST", "/api/eshop-webhook", os.environ["USER_TOKEN"], hook)
    sync = {"eshop": os.environ["ESHOP_ID"], "products": [{"productSku": "WATCHED-1", "name": "Harbour mug"}]}
    path = "/api/partner-integration/eshop/sync/products"
    job = world.call("POST", path, os.environ["CONNECTOR_TOKEN"], sync, {"Prefer": "wait=60"})[1]
    assert job["state"] == "succeeded", job
    order_that_waits_for_its_warehouse()
    counted = {"longshore_webhook_attempts_total", "longshore_handover_oldest_seconds"}
    return wait_for("a counted call, and an order that waits", lambda: counted <= (exported := samples()).keys() and exported)


def order_that_waits_for_its_warehouse():
    """The system of its warehouse does not answer."""
    user = os.environ["USER_TOKEN"]
    setting = "/api/partner-integration/wms-setting/" + os.environ["WMS_ID"]
    world.call("POST", setting, os.environ["SUPERADMIN_TOKEN"], {"baseUrl": "http://127.0.0.1:1"})
    stocks = {"eshop": os.environ["ESHOP_ID"], "warehouseId": os.environ["WAREHOUSE_ID"], "stocks": [{"productSku": "WATCHED-1", "quantity": 1}]}
    world.call("POST", "/api/partner-integration/eshop/sync/product-stocks", user, stocks, {"Prefer": "wait=60"})
    order = {
        "eshop": os.environ["ESHOP_ID"], "warehouse": os.environ["WAREHOUSE_ID"], "wms": os.environ["WMS_ID"], "send": True,
        "orderNumber": "WATCHED-1", "value": 1, "currency": "EUR", "carrier": os.environ["CARRIER_ID"],
        "billingLastName": "Byron", "billingStreet": "Quay Street 12", "billingCity": "Bristol", "billingZip": "BS1 4QA",
        "billingCountry": "GB", "items": [{"productSku": "WATCHED-1", "quantity": 1}],
    }
    assert world.call("POST", "/api/expedition", user, order)[1]["handover"], "no hand-over is due"


def expressions():
    """Each query of the dashboard, with its place."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def check_names(exported):
    """Each name is exported, or recorded, and its labels are there."""
    recording, alerts = without_comments(RULES / "recording.yml"), without_comments(RULES / "alerts.yml")
    recorded = set(re.findall(r"record: (\S+)", recording))
    queries = "\n".join([recording, alerts, *(expression for _, expression in expressions())])
    named = set(re.findall(r"\blongshore_\w+", queries))
    assert len(named) > 20, named
    assert not (missing := named - exported.keys()), f"no process exports {sorted(missing)}"
    unrecorded = set(re.findall(r"\blongshore:[\w:]+", queries)) - recorded
    assert not unrecorded, f"no rule records {sorted(unrecorded)}"
    rows = re.findall(r"^\| (`longshore_[^|]*)", (ROOT / "docs/runbook.md").read_text(), re.M)
    guide = set(re.findall(r"longshore_\w+", " ".join(rows)))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported} | UNCOUNTED
    assert guide <= families, f"no process tells what docs/runbook.md names: {sorted(guide - families)}"
    assert families <= guide, f"docs/runbook.md does not name {sorted(families - guide)}"
    for name, labels in re.findall(r"\b(longshore_\w+)\{([^}]*)\}", queries):
        unknown = set(re.findall(r"(\w+)\s*[=!]", labels)) - exported[name]
        assert not unknown, f"{name} has no label {sorted(unknown)}"
    return len(named)


def check_stories():
    """Each alert fires in one story and not in another, and its remedy is in the guide."""
    text = without_comments(RULES / "alerts.yml")
    tests = without_comments(RULES / "tests.yml")
    fires = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", tests))
    silent = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts: \[\]\n", tests + "\n"))
    alerts = set(re.findall(r"alert: (\w+)", text))
    assert alerts and fires == alerts, f"no story in which {sorted(alerts - fires)} fires"
    assert silent == alerts, f"no story in which {sorted(alerts - silent)} is silent"
    for runbook in re.findall(r"runbook: (\S+)", text):
        path, anchor = runbook.split("#")
        heads = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.M)
        anchors = {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
        assert anchor in anchors, f"{path} has no {anchor}"
    return len(alerts)


def check_dashboard():
    """Panels have their own ids and places."""
    taken, ids = set(), set()
    for panel in DASHBOARD["panels"]:
        assert panel["id"] not in ids, panel["title"]
        ids.add(panel["id"])
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["targets"], panel["title"]


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"promtool {' '.join(arguments)}\n{done.stdout}{done.stderr}"


class Prometheus:
    """A Prometheus of its own, with the rules of `deploy/`, that looks at these two processes every other second."""

    def __init__(self, folder):
        self.address = f"127.0.0.1:{free_port()}"
        targets = {
            "longshore-api": urllib.parse.urlsplit(world.BASE_URL).netloc,
            "longshore-worker": urllib.parse.urlsplit(os.environ["WORKER_METRICS_URL"]).netloc,
        }
        config = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES / name) for name in ["recording.yml", "alerts.yml"]],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": [at]}]} for job, at in targets.items()],
        }
        path = folder / "prometheus.yml"
        # JSON is YAML
        path.write_text(json.dumps(config))
        self.log = folder / "log"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={self.address}"],
            stdout=self.log.open("w"), stderr=subprocess.STDOUT,
        )

    def ask(self, path, **arguments):
        try:
            text = read(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}")
        except urllib.error.HTTPError as refusal:
            # it is starting
            if refusal.code == 503:
                return None
            raise AssertionError(f"{arguments}: {refusal.read().decode()}") from refusal
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return None
        answer = json.loads(text)
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        data = self.ask("query", query=expression)
        return data and data["result"]

    def rules(self):
        data = self.ask("rules")
        return [rule for group in data["groups"] for rule in group["rules"]] if data else []


def check_evaluation(prometheus):
    """Every rule is evaluated without a fault, and every query finds something."""
    wait_for("two scraped processes", lambda: len(prometheus.query('up{job=~"longshore-.*"} == 1') or []) == 2)
    # a rate needs two looks
    wait_for("a rate", lambda: prometheus.query("longshore:webhook_attempts:rate5m"))
    wait_for("every rule", lambda: (rules := prometheus.rules()) and all(rule["health"] != "unknown" for rule in rules))
    rules = prometheus.rules()
    faults = [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"]
    assert not faults, faults
    # nothing was answered by 5xx, so that nothing counts these
    blank = "longshore:http_errors:"
    for name in (rule["name"] for rule in rules if rule["type"] == "recording"):
        if not name.startswith(blank):
            wait_for(name, lambda name=name: prometheus.query(name))
    for title, expression in expressions():
        asked = expression.replace("$__rate_interval", "1m")
        if expression.startswith(blank) and " or " not in expression:
            prometheus.query(asked)
        else:
            wait_for(f"{title}: {asked}", lambda asked=asked: prometheus.query(asked))
    return len(rules)


if __name__ == "__main__":
    promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "recording.yml", "alerts.yml")
    promtool("test", "rules", "tests.yml")
    check_dashboard()
    alerts = check_stories()
    names = check_names(traffic())
    with tempfile.TemporaryDirectory(prefix="longshore-prometheus-") as folder:
        prometheus = Prometheus(pathlib.Path(folder))
        try:
            rules = check_evaluation(prometheus)
        finally:
            prometheus.process.terminate()
            prometheus.process.wait()
    print(f"{alerts} alerts have their stories, {names} metrics are exported, {rules} rules and {len(list(expressions()))} queries are answered")
