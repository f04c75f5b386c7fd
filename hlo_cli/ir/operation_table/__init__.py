"""The rows of all opcodes, a family a file, each in its `ROWS`: `elementwise.ROWS`, `data_movement.ROWS`,
`computing.ROWS`, `control.ROWS` and `communication.ROWS`. `operations` of the room above collects them.
"""
