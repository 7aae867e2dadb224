"""What schemathesis does not know by itself: NDJSON is text, and `default` does not stand for every status."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@schemathesis.check
def refusals_are_described(_, response, case):
    """`default` stands for what any operation may be refused with: each line of its description begins with a status."""
    if case.method.upper() != case.operation.method.upper():
        # a method that the path does not have, tried on purpose: no operation describes its answer
        return
    described = case.operation.definition.raw["responses"]
    refusals = case.operation.schema.raw_schema["components"]["responses"]["default"]["description"]
    known = {*described, *(line[:3] for line in refusals.split("\n\n") if "default" in described)}
    assert str(response.status_code) in known, f"{response.status_code} is not described"
