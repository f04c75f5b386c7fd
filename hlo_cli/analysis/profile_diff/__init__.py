"""Two profiles: `comparison.compare_profiles` matches their kernels by the differences of the programs."""
