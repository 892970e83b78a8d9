"""Puts into an installed vLLM 0.32 for CPUs the copy that vllm-project/vllm#55005 asks for: ``python tools/servers/copy_back.py VENV [--undo]``.

``_expand_kernel_impl`` gives its C++ kernel a copy of ``output`` in 64-bit integers and forgets the copy, so that temperature, top-p and
top-k of the tokens under verification stay uninitialized. Two cures can be put in, to see what each changes:

--cure copy   the copy in 64-bit integers is written back, as the other functions of that file do. A temperature loses its fraction.
--cure exact  (default) the values are repeated in their own type, without the kernel
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from specviz.errors import SpecvizError

FILE = "vllm/utils/cpu_triton_utils.py"
SHIPPED = """    torch.ops._C.expand_kernel_impl(
        _ensure_int64(output),
        _ensure_int64(input_val),
        _ensure_int64(cu_num_tokens),
        replace_from,
        replace_to,
    )
"""
CURES = {
    "copy": """    wide = _ensure_int64(output)
    torch.ops._C.expand_kernel_impl(
        wide,
        _ensure_int64(input_val),
        _ensure_int64(cu_num_tokens),
        replace_from,
        replace_to,
    )
    if wide is not output:
        output.copy_(wide.to(output.dtype))
""",
    "exact": """    values = torch.where(input_val == replace_from, replace_to, input_val)
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    expanded = torch.repeat_interleave(values, counts.to(torch.int64))
    output[: len(expanded)] = expanded.to(output.dtype)
""",
}


def main(given: list[str] | None = None) -> int:
    """Change the file as the options say; return the exit code."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.partition("\n")[0])
    parser.add_argument("venv", type=Path, help="virtual environment that holds vLLM")
    parser.add_argument("--cure", choices=CURES, default="exact")
    parser.add_argument("--undo", action="store_true", help="put the shipped lines back")
    options = parser.parse_args(given)
    try:
        print(apply_cure(options.venv, None if options.undo else options.cure))
    except SpecvizError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def apply_cure(venv: Path, cure: str | None) -> str:
    """Put a cure in, or the shipped lines; None: the shipped lines. Returns a sentence. Raises SpecvizError where the file is another."""
    found = sorted(venv.glob(f"lib/python3*/site-packages/{FILE}"))
    if not found:
        raise SpecvizError(f"There is no {FILE} in '{venv}': give the virtual environment that get.sh made.")
    text = found[0].read_text()
    now = next((lines for lines in (SHIPPED, *CURES.values()) if lines in text), None)
    if now is None:
        raise SpecvizError(f"'{found[0]}' is not the file of vLLM 0.32 that this cure is for.")
    found[0].write_text(text.replace(now, SHIPPED if cure is None else CURES[cure]))
    return f"{found[0]}: {'as shipped' if cure is None else f'cure {cure!r}'}"


if __name__ == "__main__":
    sys.exit(main())
