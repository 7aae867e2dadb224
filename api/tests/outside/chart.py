"""The chart in `deploy/helm`, as Helm itself renders its examples. Kubernetes accepts what it renders, and it is the files in `chart/`:
`--write` writes those, and the settings in the schema, anew. What the chart takes from elsewhere (settings, paths, ports, user, rules) is
as there; pods have every probe, and no rights; whatever selects or names something finds it; wrong values are refused. No cluster runs it."""

import json
import pathlib
import re
import sys
import tarfile
import tempfile

import helm_python as helm
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy/helm"
SCHEMA = CHART / "values.schema.json"
GOLDEN = pathlib.Path(__file__).with_suffix("")
ANEW = f"run {sys.executable} api/tests/outside/chart.py --write"
RULES = {name: (ROOT / f"deploy/prometheus/{name}.yml").read_text() for name in ["recording", "alerts"]}
COMPONENT = "app.kubernetes.io/component"


def read(file):
    return (ROOT / file).read_text()


def find(pattern, file):
    (match,) = set(re.findall(pattern, read(file), re.M))
    return match


# Each setting with its default; another check compares the table with what the programs say.
OPERATING = read("docs/operating.md")
TABLE = OPERATING.split("<!-- settings:")[1].split("<!-- end of settings -->")[0]
DEFAULTS = {name: default.strip("`") for name, default in re.findall(r"^\| `([A-Z]\w*)` \| (\S+) \|", TABLE, re.M)}
SECRETS = set(re.findall(r"`(\w+)_FILE`", OPERATING)) & DEFAULTS.keys()
PORTS = {
    "api": int(find(r"LONGSHORE_BIND=\S+:(\d+)", "Dockerfile")),
    "worker": int(find(r"LONGSHORE_WORKER_BIND=\S+:(\d+)", "Dockerfile")),
}
PATHS = {
    "api": re.findall(r'\.get\("(/[^"]*)"', read("api/src/urls.rs")),
    "worker": re.findall(r'\.route\("(/[^"]*)"', read("worker/src/health.rs")),
}
USER = int(find(r"^USER (\d+)$", "Dockerfile"))

# What is refused, and a word of the reason: changes of the smallest example.
WRONG = [
    ({"setings": {}}, "setings"),
    ({"settings": {"LONGSHORE_LGO": "info"}}, "LONGSHORE_LGO"),
    ({"settings": {"LONGSHORE_LOG": ["info"]}}, "LONGSHORE_LOG"),
    ({"settings": {"LONGSHORE_BIND": "0.0.0.0:80"}}, "LONGSHORE_BIND"),
    ({"settings": {"LONGSHORE_OBJECT_STORE": "/var/images"}}, "LONGSHORE_OBJECT_STORE"),
    ({"settings": {"LONGSHORE_ENCRYPTION_KEY": "main:a"}}, "LONGSHORE_ENCRYPTION_KEY"),
    ({"image": {"repository": ""}}, "repository"),
    ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    ({"existingSecret": ""}, "existingSecret"),
    ({"migrate": {"existingSecret": ""}}, "existingSecret"),
    ({"api": {"replicas": 0}}, "replicas"),
    ({"worker": {"replicas": "2"}}, "replicas"),
    ({"worker": {"tag": "old"}}, "tag"),
    ({"api": {"autoscaling": {"enabled": "yes"}}}, "enabled"),
    ({"api": {"resources": {"limits": {"memory": None}}}}, "memory"),
    ({"objectStore": {"size": "much"}}, "size"),
    ({"objectStore": {"existingClaim": "images"}}, "the object store is one of"),
    ({"objectStore": {"size": ""}}, "the object store is one of"),
    ({"pod": {"annotations": {"a": 1}}}, "annotations"),
    ({"ingress": {"enabled": True, "host": "longshore.example"}}, "LONGSHORE_TRUSTED_PROXIES"),
    ({"ingress": {"enabled": True}, "settings": {"LONGSHORE_TRUSTED_PROXIES": "10.0.0.0/8"}}, "host"),
    ({"monitoring": {"enabled": True}, "networkPolicy": {"enabled": True}}, "prometheusFrom"),
]


class Objects(list):
    """What an example installs."""

    def of(self, *kinds):
        return [object for object in self if object["kind"] in kinds]

    def names(self):
        return sorted((object["kind"], object["metadata"]["name"]) for object in self)


def example(name):
    return helm.values_from_yaml((CHART / f"examples/{name}.yaml").read_text())


def changed(values, changes):
    """With changes at any depth."""
    inner = {key: changed(values[key], value) for key, value in changes.items() if isinstance(value, dict) and key in values}
    return values | changes | inner


def render(chart, values):
    """The text of each template, without empty lines."""
    rendered = chart.render(values, name="longshore", namespace="fulfillment")
    texts = {file: "".join(f"{line}\n" for line in text.splitlines() if line.strip()) for file, text in rendered.items()}
    return {file.removeprefix("longshore/"): text for file, text in sorted(texts.items()) if text}


def read_objects(texts):
    manifests = [text for file, text in texts.items() if file.endswith(".yaml")]
    return Objects(object for text in manifests for object in yaml.safe_load_all(text) if object)


def golden(texts):
    """All texts, but for the rules, which have their home elsewhere."""
    text = "".join(f"# {file}\n{text}" for file, text in texts.items())
    for name, rules in RULES.items():
        indented = "".join(f"  {line}\n" for line in rules.splitlines() if line)
        text = text.replace(f"spec:\n{indented}", f"spec: deploy/prometheus/{name}.yml\n")
    return text


def component(object):
    return object["metadata"]["labels"][COMPONENT]


def is_valid(object, versions):
    for version in versions:
        try:
            kubernetes_validate.validate(object, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            # kinds that the operator of Prometheus brings
            assert object["apiVersion"] == "monitoring.coreos.com/v1", object["kind"]


def has_no_rights(spec, container):
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True and context["runAsUser"] == USER, context
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}, context
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False, spec
    rights = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == rights, container
    resources = container["resources"]
    assert resources["limits"]["memory"] and resources["requests"]["cpu"] and resources["requests"]["memory"], resources


def is_set(spec, container, values, secret):
    """The container has the settings that are given, and of secrets those of its Secret; returns the former."""
    variables = {variable["name"]: variable for variable in container["env"]}
    assert len(variables) == len(container["env"]), container["env"]
    # a number as it was written: the programs do not read 1e+06
    settings = values.get("settings", {})
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
    assert {name: variable["value"] for name, variable in variables.items() if "value" in variable} == given, variables
    sources = {name: variable["valueFrom"]["secretKeyRef"] for name, variable in variables.items() if "valueFrom" in variable}
    assert all(source["name"] == secret and source["key"] == name for name, source in sources.items()), sources
    assert f"target/*/{container['command'][0]}" in read("Dockerfile"), container["command"]
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    assert mounted == {volume["name"] for volume in spec.get("volumes", [])}, spec
    return given


def is_probed(name, spec, container, given):
    drain = int(given.get("LONGSHORE_DRAIN_SECONDS", DEFAULTS["LONGSHORE_DRAIN_SECONDS"]))
    assert spec["terminationGracePeriodSeconds"] > drain + 30, spec
    assert container["ports"] == [{"name": "http", "containerPort": PORTS[name]}], container
    for probe, path in [("startupProbe", "/health/live"), ("livenessProbe", "/health/live"), ("readinessProbe", "/health/ready")]:
        assert container[probe]["httpGet"] == {"path": path, "port": "http"} and path in PATHS[name], container
    is_in_folder = "LONGSHORE_OBJECT_STORE" not in given
    assert is_in_folder == any(mount["mountPath"] == "/var/lib/longshore" for mount in container.get("volumeMounts", [])), container


def find_each_other(objects):
    """Whatever selects or names something finds it."""
    pods = {component(object): object["spec"]["template"]["metadata"]["labels"] for object in objects.of("Deployment", "Job")}
    assert pods.keys() == {"api", "worker", "migrate"}, pods
    for object in objects.of("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"):
        selector = object["spec"].get("selector") or object["spec"]["podSelector"]
        selector = selector.get("matchLabels", selector)
        assert [name for name, labels in pods.items() if selector.items() <= labels.items()] == [component(object)], object
    services = {service["metadata"]["name"]: service for service in objects.of("Service")}
    budgets = objects.of("PodDisruptionBudget")
    assert sorted(map(component, services.values())) == sorted(map(component, budgets)) == ["api", "worker"], objects.names()
    scaled = {scaler["spec"]["scaleTargetRef"]["name"] for scaler in objects.of("HorizontalPodAutoscaler")}
    assert scaled == {object["metadata"]["name"] for object in objects.of("Deployment") if "replicas" not in object["spec"]}, scaled
    for monitor in objects.of("ServiceMonitor"):
        selector, (end,) = monitor["spec"]["selector"]["matchLabels"], monitor["spec"]["endpoints"]
        assert all(selector.items() <= service["metadata"]["labels"].items() for service in services.values()), monitor
        assert all(service["spec"]["ports"][0]["name"] == end["port"] for service in services.values()), monitor
        (job,) = end["relabelings"]
        assert job["sourceLabels"] == ["__meta_kubernetes_service_label_" + re.sub(r"\W", "_", COMPONENT)], job
        jobs = {job["replacement"].replace("$1", component(service)) for service in services.values()}
        wanted = set(re.findall(r"job_name: (\S+)", read("deploy/prometheus/prometheus.yml")))
        assert job["targetLabel"] == "job" and jobs == wanted, jobs
        rules = [rule["spec"] for rule in objects.of("PrometheusRule")]
        assert rules == [yaml.safe_load(text) for text in RULES.values()], "the rules are not those of deploy/prometheus"
    for ingress in objects.of("Ingress"):
        leads_to_what_is_public(ingress, services)


def leads_to_what_is_public(ingress, services):
    """To every path of the api, but for those that are not for outsiders."""
    paths = ingress["spec"]["rules"][0]["http"]["paths"]
    for path in paths:
        service = path["backend"]["service"]
        assert component(services[service["name"]]) == "api" and service["port"]["name"] == "http", path
    tables = ["api/src/urls.rs", "api/src/openapi/serve.rs", "api/console/src/lib.rs"]
    every = {path for file in tables for path in re.findall(r'\.(?:get|put|post|patch|delete|route)\(\s*"(/[^"]*)"', read(file))}
    exact = {path["path"] for path in paths if path["pathType"] == "Exact"}
    below = [path["path"].rstrip("/") + "/" for path in paths if path["pathType"] == "Prefix"]
    closed = {path for path in every - exact if not any(f"{path}/".startswith(prefix) for prefix in below)}
    assert closed == {"/metrics", "/health/live", "/health/ready"}, closed


def has_hooks(chart, values, objects):
    """Helm installs all but the hooks, which run before. It calls no cluster for this."""
    names = {"name": "none", "cluster": {"server": "http://127.0.0.1:9"}, "context": {"cluster": "none"}}
    nowhere = {"clusters": [names], "contexts": [names], "current-context": "none"}
    with helm.Config(kubeconfig_content=json.dumps(nowhere), storage_driver="memory", namespace="fulfillment") as config:
        installed = config.install(chart, "longshore", values, dry_run="client")["manifest"]
    hooks = Objects(object for object in objects if "helm.sh/hook" in object["metadata"].get("annotations", {}))
    assert hooks.of("Job") and all(hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade" for hook in hooks), hooks
    assert sorted(Objects(yaml.safe_load_all(installed)).names() + hooks.names()) == objects.names(), installed


def has_all_settings(chart, write):
    """The Secret has the settings that are secrets, and the schema all others."""
    s3 = {"settings": {"LONGSHORE_S3_ACCESS_KEY_ID": "id"}}
    api, _ = read_objects(render(chart, changed(example("minimal"), s3))).of("Deployment")
    (container,) = api["spec"]["template"]["spec"]["containers"]
    secrets = {variable["name"] for variable in container["env"] if "valueFrom" in variable}
    assert secrets == SECRETS, f"secrets of the chart: {secrets}; of docs/operating.md: {SECRETS}"
    schema = json.loads(SCHEMA.read_text())
    there = schema["properties"]["settings"]["properties"]
    settings = {name: there.get(name, {"$ref": "#/$defs/setting"}) for name in DEFAULTS if name not in SECRETS}
    if write:
        schema["properties"]["settings"]["properties"] = settings
        SCHEMA.write_text(json.dumps(schema, indent=2) + "\n")
    else:
        assert list(there) == list(settings), f"values.schema.json has other settings than docs/operating.md: {ANEW}"
    ports = {"LONGSHORE_BIND": PORTS["api"], "LONGSHORE_WORKER_BIND": PORTS["worker"]}
    assert all(settings[name]["pattern"] == f":{port}$" for name, port in ports.items()), ports


def replaces_workers_first(chart):
    """While `api.tag` is set, the api stays what it was."""
    during = changed(example("minimal"), {"image": {"tag": "new"}, "api": {"tag": "old"}})
    objects = read_objects(render(chart, during))
    pods = {component(object): object["spec"]["template"]["spec"] for object in objects.of("Deployment", "Job")}
    tags = {name: pod["containers"][0]["image"].rsplit(":")[-1] for name, pod in pods.items()}
    assert tags == {"migrate": "new", "worker": "new", "api": "old"}, tags


def is_strict(schema):
    """No object has members that it does not name, but for those of Kubernetes."""
    if isinstance(schema, dict):
        assert "properties" not in schema or schema["additionalProperties"] is False, schema
        schema = [schema[key] for key in schema.keys() - {"allOf"}]
    for inner in schema if isinstance(schema, list) else []:
        is_strict(inner)


def refuses(chart, values, reason):
    try:
        chart.render(values)
    except helm.HelmError as error:
        assert reason in str(error), f"{reason}: {error}"
    else:
        raise AssertionError(f"{reason}: is accepted: {values}")


def check(chart, package, write):
    about = chart.metadata
    assert about["version"] == about["appVersion"] == find(r'^version = "(.*)"', "Cargo.toml"), about
    has_all_settings(chart, write)
    is_strict(json.loads(SCHEMA.read_text()))
    versions = [re.search(r"\d+\.\d+", about["kubeVersion"])[0], kubernetes_validate.latest_version()]
    rendered = set()
    for file in sorted((CHART / "examples").iterdir()):
        values, texts = example(file.stem), render(chart, example(file.stem))
        objects = read_objects(texts)
        for object in objects:
            is_valid(object, versions)
        for object in objects.of("Deployment", "Job"):
            name, spec = component(object), object["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            has_no_rights(spec, container)
            secret = (values["migrate"] if name == "migrate" else values)["existingSecret"]
            given = is_set(spec, container, values, secret)
            if name != "migrate":
                is_probed(name, spec, container, given)
        find_each_other(objects)
        has_hooks(chart, values, objects)
        said = [message for message in helm.lint(package, values, strict=True)["messages"] if message["severity"] > 1]
        assert not said, said
        before = GOLDEN / f"{file.stem}.txt"
        if write:
            before.write_text(golden(texts))
        assert before.read_text() == golden(texts), f"{file.name}: renders something else than {before}: {ANEW}"
        rendered |= texts.keys()
        print(f"{file.name}: {len(objects)} objects, valid for Kubernetes {' and '.join(versions)}")
    templates = {template["name"] for template in chart.templates if not template["name"].endswith(".tpl")}
    assert rendered == templates, f"no example has {templates - rendered}"
    replaces_workers_first(chart)
    for changes, reason in WRONG:
        refuses(chart, changed(example("minimal"), changes), reason)
    print(f"{len(WRONG)} wrong values are refused")


with tempfile.TemporaryDirectory() as folder:
    # as it is given away: it has the rules in place of the links to them
    package = helm.package(CHART, destination=folder)
    with tarfile.open(package) as files:
        links = [file.name for file in files if file.issym() or file.islnk()]
    assert not links, links
    with helm.Chart.load(package) as chart:
        check(chart, package, "--write" in sys.argv)
