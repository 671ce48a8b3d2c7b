"""HTTP as every role speaks it: the protocol, problem documents, plain ASGI, the OpenAPI document's common parts."""
