"""Which shape an instruction must have: `inference.infer_shape` derives it from the operands,
`comparison.shape_difference` holds a written shape against it; one file for each family of opcodes, as in
xla/service/shape_inference.cc.
"""
