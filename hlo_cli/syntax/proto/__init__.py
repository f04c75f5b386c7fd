"""Protos to the IR and back, without protobuf: `read_module.read_proto`, `write_module.module_to_bytes`; in protobuf's
text format or JSON, through the bytes of the same message, `read_proto_text.read_proto_text`. Mirrors
xla/service/hlo.proto.
"""
