"""`hlo fuse`: what is fused, what that saves, and what everything costs."""
