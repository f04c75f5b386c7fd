"""Where buffers go within a heap: `heap.place_best` by size with the best fit, as CPU and GPU compilers do,
`fast_merge.fast_merge` by time, as TPU compilers do. Knows sizes and live ranges only, no module.
"""
