"""Protos to the IR and back, without protobuf: `read.read_proto`, `write.module_to_bytes`. Mirrors
xla/service/hlo.proto.
"""
