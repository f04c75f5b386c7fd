"""`hlo schedule`: asynchronous operations, their overlap with compute, and their exposed bytes."""
