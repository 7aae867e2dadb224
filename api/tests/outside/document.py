"""The served document is OpenAPI 3.1, in JSON and read as YAML, and every example in it fits its schema."""

import json

import jsonschema
import yaml
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

import world

served = world.served()
document = json.loads(served)
# many tools read both by a reader of YAML, which takes no key of more than 1,024 characters
assert yaml.load(served, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) == document
assert document["openapi"].startswith("3.1."), document["openapi"]
validate(document)

# references are followed from within single schemas: they need the name of the whole
NAME = "urn:longshore"
whole = json.loads(json.dumps(document).replace('"#/components', f'"{NAME}#/components'))
registry = Registry().with_resource(NAME, Resource.from_contents(whole, default_specification=DRAFT202012))
checked = 0


def followed(example):
    """One that several operations share is among the components."""
    name = example.get("$ref", "").removeprefix(f"{NAME}#/components/examples/")
    return whole["components"]["examples"][name] if name else example


def check(place, content):
    """Each example of a media type against its schema."""
    global checked
    examples = [content["example"]] if "example" in content else []
    examples += [followed(example)["value"] for example in content.get("examples", {}).values()]
    for example in examples:
        validator = jsonschema.Draft202012Validator(
            content["schema"], registry=registry, format_checker=jsonschema.FormatChecker()
        )
        faults = [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(example)]
        assert not faults, (place, faults)
        checked += 1


def walk(place, value):
    if isinstance(value, dict):
        if "schema" in value and ("example" in value or "examples" in value):
            check(place, value)
        for name, inner in value.items():
            walk(f"{place}/{name}", inner)
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            walk(f"{place}/{position}", inner)


walk("", whole)
assert checked > 50, checked
print(f"the document is valid, and {checked} examples fit their schemas")
