"""The pictures of README and docs, drawn from exact laws and settings: ``python docs/pictures.py``.

SVG by hand: it follows light and dark, and the same laws give the same bytes.
"""

import re
import tomllib
from pathlib import Path

from simverify import get_model, get_verifier
from simverify.comparing.curves import acceptance_curves

FOLDER = Path(__file__).parent / "_static"

GAMMA = 8
RULES = ("token", "block", "greedy")
WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 500, 44, 250
_LABEL = 17

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-weight: 600; }
  .page { fill: #ffffff; }
  .grid { stroke: #d0d7de; }
  path { fill: none; stroke-width: 2.5; }
  .token { stroke: #9a5b00; } text.token, circle.token { fill: #9a5b00; }
  .block { stroke: #0a5fbf; } text.block, circle.block { fill: #0a5fbf; }
  .greedy { stroke: #1a7037; } text.greedy, circle.greedy { fill: #1a7037; }
  text { stroke: none !important; }
  @media (prefers-color-scheme: dark) {
    text { fill: #d1d7e0; }
    .page { fill: #0d1117; }
    .grid { stroke: #3d444d; }
    .token { stroke: #e3a34f; } text.token, circle.token { fill: #e3a34f; }
    .block { stroke: #6cb0f5; } text.block, circle.block { fill: #6cb0f5; }
    .greedy { stroke: #67c27f; } text.greedy, circle.greedy { fill: #67c27f; }
  }
"""


def acceptance() -> str:
    """Draw Pr(tau >= l) of three rules on the compact model, from its exact laws."""
    rules = {name: get_verifier(name) for name in RULES}
    curves = acceptance_curves(get_model("compact"), rules, GAMMA, seed=0, threads=1)
    means = ", ".join(f"{name} {curve.expected:.3f}" for name, curve in curves.items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title description">',
        '<title id="title">Acceptance curves of token, block and greedy block verification</title>',
        '<desc id="description">Pr(tau at least l) for l from 1 to 8 on the model compact. '
        f"E[tau]: {means}.</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
        f'<text class="title" x="{LEFT}" y="22">Pr(τ ≥ l): chance that at least l of '
        f"{GAMMA} draft tokens are accepted</text>",
        *_grid(),
    ]
    # Labels stand at the ends of their lines, from the top, a line of text apart.
    place = 0.0
    for name, curve in sorted(curves.items(), key=lambda item: -item[1].middle[-1]):
        points = [(_x(level), _y(float(value))) for level, value in enumerate(curve.middle, 1)]
        line = " ".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
        parts.append(f'<path class="{name}" d="{line}"/>')
        parts += [f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
        place = max(points[-1][1], place + _LABEL)
        parts.append(
            f'<text class="{name}" x="{RIGHT + 12}" y="{place + 4:.1f}">'
            f"{name}, E[τ] = {curve.expected:.3f}</text>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _x(level: float) -> float:
    return LEFT + (level - 1) * (RIGHT - LEFT) / (GAMMA - 1)


def _y(probability: float) -> float:
    return BOTTOM - probability * (BOTTOM - TOP)


def _grid() -> list[str]:
    lines = []
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        lines.append(
            f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>'
        )
    for level in range(1, GAMMA + 1):
        x = _x(level)
        lines.append(f'<text x="{x:.1f}" y="{BOTTOM + 20}" text-anchor="middle">{level}</text>')
    middle = (LEFT + RIGHT) / 2
    lines.append(f'<text x="{middle:.1f}" y="{HEIGHT - 10}" text-anchor="middle">l</text>')
    return lines


_SAYS = {
    "cli": "commands",
    "plugin": "pytest",
    "api": "Python functions",
    "reports": "terminal, HTML, Markdown, JUnit",
    "auditing": "audits of code",
    "comparing": "rules compared",
    "served": "audits of servers",
    "samplers": "samplers judged alone",
    "surveying": "many audits",
    "sweeping": "many comparisons",
    "history": "runs and baselines",
    "battery": "tests, one error rate",
    "engines": "other people's code",
    "triton_cpu": "Triton without a GPU",
    "backends": "torch, Triton",
    "simulators": "compiled kernels, exact values",
    "drafting": "drafters",
    "faults": "known bugs",
    "models": "where p and q come from",
    "verifiers": "rules",
    "trees": "draft trees",
    "results": "documents, and reading them",
    "symbolic": "exact distributions of random code",
    "disk_cache": "kept between runs",
    "stats": "tests, bounds, plans",
    "roles": "what is audited",
    "errors": "exceptions",
}
_BOX, _STEP, _LEFT = 40, 60, 16


def rooms() -> str:
    """Draw the packages, each above all that it may import, from pyproject.toml."""
    settings = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [re.findall(r"[a-z_]+", layer) for layer in layers if "__main__" not in layer]
    height = _STEP * len(rows) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="title description">',
        '<title id="title">The packages of simverify</title>',
        '<desc id="description">From the top: '
        + "; ".join(", ".join(row) for row in rows)
        + ". A package imports packages below it.</desc>",
        f"<style>{_STYLE} rect.grid {{ fill: none; }} path.grid {{ stroke-width: 1.5; }}"
        " .small { font-size: 11px; }</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="{_LEFT}" y="20">A package imports those below it</text>',
    ]
    middle = WIDTH / 2
    for i in range(1, len(rows)):
        tip = 30 + i * _STEP
        parts.append(f'<path class="grid" d="M{middle:.0f} {tip - 16}V{tip}m-5 -6l5 6l5 -6"/>')
    for i, row in enumerate(rows):
        width = (WIDTH - _LEFT) / len(row)
        for j, room in enumerate(row):
            x, y = _LEFT + j * width, 32 + i * _STEP
            parts.append(
                f'<rect class="grid" x="{x:.0f}" y="{y}" width="{width - _LEFT:.0f}" '
                f'height="{_BOX}" rx="4"/><text class="title" x="{x + 8:.0f}" y="{y + 17}">{room}'
                f'</text><text class="small" x="{x + 8:.0f}" y="{y + 33}">{_SAYS.get(room, "")}'
                "</text>"
            )
    return "\n".join([*parts, "</svg>", ""])


PICTURES = {"acceptance.svg": acceptance, "rooms.svg": rooms}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, draw in PICTURES.items():
        (FOLDER / file).write_text(draw(), encoding="utf-8")
