"""Write a folder of a Llama, such as the bundled target, as a GGUF file for llama.cpp.

    pip install gguf==0.19.0 safetensors
    python benchmarks/serving/to_gguf.py TARGET target-Q4_0.gguf --type Q4_0

``simverify models --write FOLDER --format gguf`` writes the bundled pair in float32.
"""

import argparse
from pathlib import Path

from simverify.models.writing import write_gguf


def main() -> None:
    """Read the folder and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--type", default="F32", choices=("F32", "F16", "Q4_0", "Q8_0"))
    parser.add_argument("--chat-template", type=Path, help="a Jinja file for conversations")
    given = parser.parse_args()
    template = given.chat_template.read_text() if given.chat_template else None
    write_gguf(given.folder, given.out, given.type, template)


if __name__ == "__main__":
    main()
