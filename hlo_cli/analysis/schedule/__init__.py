"""What runs when, and how long it takes: `async_overlap.async_pairs` matches starts with dones,
`async_overlap.analyze_overlap` finds what overlaps and what is exposed, `async_verifier.verify_async` holds XLA's
rules, `kernel_times.KernelTimes` predicts the times of kernels, and `step_time.estimate_time` bounds the time of an
execution.
"""
