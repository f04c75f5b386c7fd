"""What runs when: `async_pairs.async_pairs` matches starts with dones, `async_overlap.analyze_overlap` finds what
overlaps and what is exposed, `async_verifier.verify_async` holds XLA's rules, `step_time.estimate_time` bounds the time
of an execution.
"""
