"""Messages in protobuf's text format or JSON to the IR, through the bytes of the same message: `read.read_proto_text`,
`read.proto_text_to_bytes`.
"""
