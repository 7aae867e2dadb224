"""What schemathesis does not know by itself: NDJSON is text."""

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
