"""What do errors mean that Flax, Optax, Equinox, Chex, and Orbax raise, before HLO exists?

The messages are those of flax/errors.py, flax/nnx, optax, equinox, jaxtyping, chex, and orbax.checkpoint; in the
patterns, a space stands for any white space.
"""

from __future__ import annotations

from typing import Final

from hlo_cli.ir.compiler_messages import ErrorRule

_NAME: Final = r"\"[^\"\n]{1,200}\""


def _rule(key: str, rule: str, violated: str, fix: str) -> ErrorRule:
    """A rule of a library: the program breaks it before HLO exists."""
    return ErrorRule(key, rule, violated, fix, is_program=True, is_about_hlo=False)


_CHECKPOINT: Final = "Orbax restores a checkpoint into a tree with the keys that it was saved with."
_STRICT: Final = (
    "Look at the saved keys with checkpointer.metadata(path); drop or rename keys, or restore with "
    "partial_restore=True."
)

LIBRARY_RULES: Final = (
    # names are quoted as Flax quotes them: a scope may be "/", which is hard to see without quotes
    # --- Flax ---
    (
        (
            rf"Tried to access (?P<name>{_NAME}) from collection (?P<collection>{_NAME}) in (?P<scope>{_NAME}) but "
            rf"the collection is empty"
        ),
        _rule(
            # a common cause is params passed without the outer dict
            "collection of a Flax module",
            "apply() gets all collections that the module reads, such as params and batch_stats.",
            "{collection} is empty where {scope} reads {name}.",
            "Pass what init() returned, as in model.apply({{'params': params, 'batch_stats': stats}}, x).",
        ),
    ),
    (
        rf"Could not find parameter named (?P<name>{_NAME}) in scope (?P<scope>{_NAME})",
        _rule(
            "parameter of a Flax module",
            "apply() gets the parameters that init() made for the same module.",
            "{scope} has no parameter {name}.",
            "The parameters are of another model or version: compare the names by jax.tree.map(jnp.shape, params).",
        ),
    ),
    (
        (
            rf"For parameter (?P<name>{_NAME}) in (?P<scope>{_NAME}), the given initializer is expected to "
            rf"generate shape "
            r"(?P<wanted>\([\d, ]{0,200}\)), but the existing parameter it received has shape (?P<stored>\([\d, "
            r"]{0,200}\))"
        ),
        _rule(
            "parameter of a Flax module",
            "A parameter has the shape that the module computes from its input.",
            "{name} of {scope} is {stored}, the input needs {wanted}[[: {difference}]].",
            "The input has other sizes than the one for init(), or the parameters are of another model.",
        ),
    ),
    (
        rf"No Variable named (?P<name>{_NAME}) for collection (?P<collection>{_NAME}) exists in (?P<scope>{_NAME})",
        _rule(
            "variable of a Flax module",
            "apply() gets the variables that init() made for the same module.",
            "{scope} has no {name} in {collection}.",
            "Pass the collection that init() returned, and use the same module and names.",
        ),
    ),
    (
        r"(?P<module>[\w./]{1,200}) needs PRNG for (?P<name>\"\w{1,60}\")",
        _rule(
            "random numbers of a Flax module",
            "A module that draws random numbers, such as Dropout, gets a key for each of its streams.",
            "{module} has no key for {name}.",
            "Pass rngs={{{name}: key}} to apply(), or set deterministic=True (no dropout) for evaluation.",
        ),
    ),
    (
        r"`deterministic` is False, but no `rngs` argument was provided to (?P<module>\w++)",
        _rule(
            "random numbers of a Flax module",
            "A module that draws random numbers, such as Dropout, gets a key.",
            "{module} has none.",
            "Create it with rngs=nnx.Rngs(0), pass rngs in the call, or call model.eval() for evaluation.",
        ),
    ),
    (
        (
            rf"Cannot update variable (?P<name>{_NAME}) in (?P<scope>{_NAME}) because collection "
            rf"(?P<collection>{_NAME}) is immutable"
        ),
        _rule(
            "variable of a Flax module",
            "apply() returns changed variables only of the collections that are named in mutable.",
            "{scope} changes {name} of {collection}.",
            "Call apply(…, mutable=[{collection}]), which returns the result and the changed collection.",
        ),
    ),
    (
        rf"Could not create (?P<kind>\w++) (?P<name>{_NAME}) in Module (?P<module>\w++): Name in use",
        _rule(
            "name in a Flax module",
            "The names of submodules, parameters, and variables of a module differ.",
            "{module} has two of the name {name} ({kind}).",
            "Give the second another name, or create it once and call it twice to share its parameters.",
        ),
    ),
    (
        r"Jax transforms and Flax models cannot be mixed",
        _rule(
            "transformation in a Flax module",
            "Modules create variables as they run, which functions that jax.lax and jax.vmap trace cannot do.",
            "A module is called inside of a transformation of JAX, in another module.",
            (
                "Use the transformations of Flax (nn.scan, nn.vmap, nn.remat, nn.jit, nn.cond), or create the "
                "submodule before."
            ),
        ),
    ),
    (
        (
            r"(?P<attribute>\"\w{1,60}\" object has no attribute \"\w{1,60}\")\. If \"\w{1,60}\" is defined in "
            r"'\.setup\(\)', remember these fields are only accessible from inside 'init' or 'apply'"
        ),
        _rule(
            "module without variables",
            "Submodules of setup() exist only inside of init() and apply().",
            "{attribute} yet.",
            "Bind the variables, as in model.bind(variables).layer, or call the layer in a method of the module.",
        ),
    ),
    (
        (
            r"Cannot (?P<what>mutate|extract graph node from|call)[ ]?(?P<kind>[\w '\"]{0,60}?)(?: "
            r"captured)?[^\n]{0,20}? (?:from|at) (?:a )?different trace level"
        ),
        _rule(
            # NNX updates objects in place, which JAX's own transformations cannot see
            "object of Flax NNX in a transformation",
            "A transformation of JAX traces a function of its arguments; objects around it cannot be changed.",
            "The function changes an object of NNX from outside of it[[ ({kind})]].",
            "Pass the module as an argument, and use nnx.jit, nnx.grad, and nnx.scan in place of those of JAX.",
        ),
    ),
    # --- Equinox, jaxtyping, and Chex ---
    (
        r"EquinoxRuntimeError: (?P<why>(?!\s*Above is the stack)[^\n]{1,300})",
        _rule(
            "check at run time",
            "equinox.error_if checks a value on the device and raises an error on the host.",
            "{why}.",
            "EQX_ON_ERROR=breakpoint opens a debugger at the check; the value comes from the program's data.",
        ),
    ),
    (
        (
            r"JaxRuntimeError: (?P<why>[^\n]{1,300}?) \(`check` failed\)(?:[\s\S]{0,200}?(?P<place>[^\s(]{1,200}:\d"
            r"{1,6}))?"
        ),
        _rule(
            "check at run time",
            "checkify.check checks a value on the device; err.throw() raises the error on the host.",
            "{why}.",
            "The value comes from the program's data, such as an index: print it, or clip it.",
        ),
    ),
    (
        (
            r"\[Chex\] (?:Assertion )?(?P<check>assert_\w++) failed: (?:Error in \w++(?: \w++){0,4} check: )?"
            r"(?P<why>[^\n]{1,400})"
        ),
        _rule(
            "assertion of Chex",
            "The program checks shapes, types, or values of its arrays.",
            "{check} failed: {why}.",
            "Print the shapes at the call; inside of vmap and pmap, arrays have no batch dimension.",
        ),
    ),
    (
        (
            r"(?:Type-check error whilst checking the (?P<what>parameters|return value) of (?P<function>\S{1,200})\.)"
            r"(?:[\s\S]{0,400}?typechecking parameter '(?P<name>\w{1,60})')?[\s\S]{0,400}?Actual value: "
            r"(?P<found>[^\n]{1,200})\s+Expected type: "
            r"(?P<wanted>[^\n]{1,200})"
        ),
        _rule(
            "annotation of a shape",
            "jaxtyping checks arrays against their annotations, in which a name has one size in each call.",
            "[[{name} of ]]{function} is {found}, annotated as {wanted}",
            "Correct the annotation or the argument; names without a value yet take the first size that they meet.",
        ),
    ),
    # --- checkpoints ---
    (
        (
            r"restore item and on-disk value metadata tree structures do not "
            r"match:\s*(?P<key>[^\s:]{1,200}):\s*- Source: "
            r"(?P<source>\w++)[^\n]{0,4000}\s*- Target: (?P<target>\w++)"
        ),
        _rule("keys of a checkpoint", _CHECKPOINT, "{key} is {source} on one side and {target} on the other.", _STRICT),
    ),
    (
        (
            r"restore item and on-disk value metadata tree structures do not match:[\s\S]{0,2000}?"
            r"(?P<keys>(?:'[^'\n]{1,80}': ?\{ ?){0,12}'[^'\n]{1,80}': "
            r"?)Diff\(lhs=(?P<left>None|[^()\n]{1,80}\([^\n]{0,160}?\)), "
            r"rhs=(?P<right>None|\w{1,40}\([^\n]{0,160}?\)(?=\)))"
        ),
        _rule(
            "keys of a checkpoint",
            _CHECKPOINT,
            "{keys} the tree to restore has {left}, the checkpoint {right}.",
            _STRICT,
        ),
    ),
    (
        r"restore item and on-disk value metadata tree structures do not match",
        _rule("keys of a checkpoint", _CHECKPOINT, "The tree to restore has other keys than the checkpoint.", _STRICT),
    ),
    (
        (
            r"(?P<what>Destination|Checkpoint at|Checkpoint path) (?P<path>/\S{1,400}|gs://\S{1,400}) "
            r"(?P<why>already exists|not found|does not exist)"
        ),
        _rule(
            "path of a checkpoint",
            "Orbax writes a checkpoint to a folder that does not exist yet, and reads one that was finished.",
            "{path} {why}.",
            "For a new run, choose another folder or pass force=True; to read, list the steps with "
            "CheckpointManager.all_steps(), as a folder whose writing was interrupted is removed.",
        ),
    ),
    (
        (
            r"(?:No checkpoint path found for step (?P<step>\d{1,12}+)(?: in | at |:)?|No steps? found in |No item "
            r"found in |Item \"(?P<item>\w{1,60})\" (?:was not found|could not be found) in )(?P<path>\S{0,400})"
        ),
        _rule(
            "path of a checkpoint",
            "A step can be restored if it was saved and its writing was finished.",
            "No checkpoint[[ of step {step}]][[ with {item}]] in {path}.",
            "List the steps with CheckpointManager.all_steps(), and check the folder (it is the one above the steps).",
        ),
    ),
    (
        (
            r"[Ss]harding passed to deserialization should be specified|"
            r"(?P<file>\S{0,200}_sharding)[^\n]{0,100}(?:not found|does not exist)|[Tt]opology mismatch|"
            r"(?P<device>\w{1,40}\(id=\d{1,6}[^\n)]{0,100}\)|Device \w{1,40}) was not found in "
            r"(?:jax\.local_devices|jax\.devices)"
        ),
        _rule(
            # a checkpoint has the shardings of the job that wrote it, which may have had other devices
            "devices of a checkpoint",
            "Without other instructions, Orbax restores arrays to the devices that they were saved from.",
            "The devices of the checkpoint are not there[[: {device}]].",
            "Pass a target tree of jax.ShapeDtypeStruct(shape, dtype, sharding=…) for the devices of this job.",
        ),
    ),
    (
        (
            r"The target dict keys and state dict keys do not match, target dict contains keys "
            r"(?P<target>\{[^}\n]{0,400}\})[^\n]{0,60}not present in state dict[^\n]{0,40}at path "
            r"(?P<path>[^\n]{1,200})"
        ),
        _rule(
            "keys of a state",
            "flax.serialization restores a state into one with the same keys.",
            "{target} of {path} is not in the saved state.",
            "The model changed since it was saved: compare the keys, and add or rename them.",
        ),
    ),
)
"""Patterns of messages and their rules."""
