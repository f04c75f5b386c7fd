"""`hlo kernel`: the kernels that a program brings along, and what each reads, holds, and computes."""
