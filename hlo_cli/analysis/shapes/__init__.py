"""Which shape an instruction must have: `inference.infer_shape` derives it from the operands by the rules of
`computing`, `moving`, and `calling` operations, `inference.shape_difference` holds a written shape against it.
"""
