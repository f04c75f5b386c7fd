"""Programs of JAX, TensorFlow, and PyTorch/XLA as modules: `programs.from_jax`.

No framework is imported: objects are recognized by their methods.
"""
