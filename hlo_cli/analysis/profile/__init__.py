"""What a trace says about the instructions that ran: `measure.measure` joins its events to them, and
`measures.measures` sums their times.
"""
