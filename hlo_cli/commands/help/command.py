"""`hlo help`: topics beyond the help of each command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import click

from hlo_cli.source import HloError, nearest

DUMP: Final = """\
Everything that a process compiles, as files in DIR; set it before the
framework starts:

  XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text" python train.py
  hlo parse DIR

  --xla_dump_hlo_pass_re='.*'         the module after every pass, too
  --xla_dump_hlo_module_re=jit_step   only modules with such a name

One function in JAX:

  lowered = jax.jit(f).lower(*arguments)
  lowered.as_text("hlo")              before optimizations
  lowered.compile().as_text()         after optimizations: layouts, fusions
  lowered.compile(compiler_options={
      "xla_dump_to": "DIR", "xla_dump_hlo_as_text": True})

  This form of dump also works for a TPU that is only compiled for. What JAX
  takes from its compilation cache is not compiled, and so not dumped:
  JAX_ENABLE_COMPILATION_CACHE=false.

PyTorch/XLA: XLA_FLAGS as above.

TensorFlow: XLA_FLAGS as above, or one function with jit_compile=True:

  f.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
"""

WHERE: Final = """\
--where EXPR takes what EXPR is true of: instructions, or the values they make.

  opcode == fusion and padded_bytes > 1MiB
  op_name ~ "attention|mlp" and not fused
  opcode in (all-gather-start, all-reduce-start) and users > 1
  dtype == bf16 and dims[-1] < 128 and padding > 50%

Fields     name opcode computation op_name op_type source line
           shape dtype rank dims dims[0] layout memory_space
           elements logical_bytes padded_bytes padding_bytes padding
           operands users called_computations   names, or how many
           is_root is_entry fused loop product  true by themselves; loop: it
                                                runs in a while loop; product:
                                                a dot, a convolution, or the
                                                library call that does one
           flops transcendentals bytes intensity   what it costs, with all
                                                it calls; bytes it moves
           any attribute: kind == kLoop, attributes[padding] ~ 0_1
           of values: instruction saving_bytes space space_name
Operators  == != < <= > >=   in (a, b)   not in   and or not ( )
           ~ !~  "quoted" is a regular expression, bare* a glob (* ? …),
                 bare text a part; looks at the first 20,000 characters
Functions  uses(%a) calls(c)          directly; a name, a glob or "a pattern"
           depends_on(%a) feeds(%a)   over any number of steps
           has(op_name)               whether the field is there
Numbers    1_000 1,000 1e6 4kB 64KiB 1.5MiB 50%, or a field that is a number
           (in lists, commas part the numbers: write 1_000)

A shape without {layout} stands for any layout. Comparing what is not there
is false, with != too; not turns that round: not channel_id == 3.

What an unknown custom call costs is unknown; what calls one costs at least
the rest. A comparison that this leaves open is neither true nor false, not
turned round either: a note tells how many are passed over for it, and
not has(flops) finds them.

  hlo parse DUMP --where 'depends_on(copy.1) and opcode == fusion'
  hlo layout DUMP --where 'memory_space == 1' --by instruction
"""

EXPECT: Final = """\
hlo lint DUMP --expect FILE checks what a team states of its programs. FILE is
TOML; this one is complete:

  max_peak.hbm = "14GiB"           # the most alive at once: hlo memspace DUMP

  expect = [
    "count(opcode == all-gather) <= 12",
    "none(opcode == copy and bytes > 1MiB and loop)",
    'exists(fusion ~ "attention|flash")',
    "sum(padded_bytes, opcode == fusion) < 2GiB",
    {that = "max(bytes) <= 512MiB", why = "larger ones do not overlap"},
  ]

  [module."jit_train*"]            # only modules of such a name (* ? [ab])
  max_peak.vmem = "96MiB"
  expect = ["none(opcode == all-gather and exposed)"]

  [target.tpu]                     # only what is compiled for tpu, gpu or cpu
  expect = ["none(dtype == f64)"]

Functions  count(EXPR) LIMIT            how many operations EXPR is true of
           sum(FIELD, EXPR) LIMIT       their FIELD added up; also max and min
           none(EXPR) exists(EXPR)      without a limit
LIMIT      == != < <= > >= and a number: 12  1_000  14GiB  50%
EXPR       the language of --where, see hlo help where; left out of sum, max
           and min, all operations count; what hangs on an unknown cost is
           not told: neither met nor an error
FIELD      padded_bytes bytes flops elements users … any that is a number
max_peak   of hbm vmem smem cmem sflag sparsecore host ram

An operation counts once, however XLA spells it: all-gather, all-gather-start
with its all-gather-done, async-start around an all-gather and a fusion that
starts one are all opcode == all-gather, with the shape of what comes out.
What is in a loop counts once, however often that runs. Besides what --where
knows there are

  async    whether it is asynchronous
  exposed  whether no kernel runs meanwhile, as hlo schedule DUMP says; true
           of collectives that are not asynchronous
  fusion   of fusions the name, the op_name, and those of all that is fused

What is not met is an error HLO901 at the first place that counts; a baseline
does not silence it. A TPU's dots are convolutions, and libraries take over
products, sorts and more by custom calls: an opcode that the module has under
another name is a warning HLO902; write product for products in any spelling.
--select HLO9 checks nothing else. In hlo.toml,
expect = "FILE" under [lint] does without the option.

  hlo lint dump/ --expect expect.toml
  hlo lint dumps/ --expect expect.toml --select HLO9 --jobs 4 --format github
"""

COMPLETION: Final = """\
Once, in the shell's start-up file:

  bash   eval "$(_HLO_COMPLETE=bash_source hlo)"     in ~/.bashrc
  zsh    eval "$(_HLO_COMPLETE=zsh_source hlo)"      in ~/.zshrc
  fish   _HLO_COMPLETE=fish_source hlo | source      in ~/.config/fish/config.fish
"""

TOPICS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "dump": ("how to make a dump", lambda: DUMP),
    "where": ("how to choose instructions: the language of --where", lambda: WHERE),
    "expect": ("what hlo lint --expect checks, and how to state it", lambda: EXPECT),
    "chips": ("the chips that --chip knows, and the times estimated for them", lambda: _chips()),
    "completion": ("how to let the shell complete commands and options", lambda: COMPLETION),
}


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def command(context: click.Context, topic: str | None) -> None:
    """Explain a TOPIC, or a command; without one, list them.

    \b
    Examples:
      hlo help where
      hlo help layout
    """
    click.echo(_text(context, topic).rstrip("\n"))


def _text(context: click.Context, topic: str | None) -> str:
    if topic is None:
        rows = [f"  hlo help {name:<12}{summary}" for name, (summary, _) in TOPICS.items()]
        return "\n".join([*rows, "  hlo help COMMAND     the same as hlo COMMAND --help"])
    if topic in TOPICS:
        return TOPICS[topic][1]()
    parent = context.parent
    assert parent is not None
    assert isinstance(parent.command, click.Group)
    if found := parent.command.get_command(parent, topic):
        return found.get_help(click.Context(found, parent=parent, info_name=topic))
    known = [*TOPICS, *parent.command.list_commands(parent)]
    meant = nearest(topic, known)
    question = f"; did you mean {meant}?" if meant else ""
    raise HloError(f"no topic {topic}{question}", hint=None if meant else "hlo help lists the topics")


def _chips() -> str:
    from hlo_cli.commands.help.chips import chips_text

    return chips_text()
