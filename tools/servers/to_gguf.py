"""The shipped models as GGUF files for llama.cpp: ``python tools/servers/to_gguf.py SOURCE MODEL OUT``.

SOURCE  the sources of llama.cpp, whose own converter does the work
MODEL   folder of a Llama-style model with a byte-level BPE
OUT     the file to write, in float32

The converter knows a pre-tokenizer by the hash of what it makes of a sample text, and a new tokenizer's hash is not in its list. Ours splits
as GPT-2's does, so that is said here. It would also try SentencePiece first, which it need not.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main(source: str, model: str, out: str) -> None:
    """Convert a model with the converter of llama.cpp."""
    sys.path[:0] = [source, str(Path(source) / "gguf-py")]
    from conversion import base, llama

    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    llama.LlamaModel.set_vocab = lambda self: self._set_vocab_gpt2()
    sys.argv = ["convert_hf_to_gguf.py", model, "--outfile", out, "--outtype", "f32"]
    runpy.run_path(str(Path(source) / "convert_hf_to_gguf.py"), run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:4])
