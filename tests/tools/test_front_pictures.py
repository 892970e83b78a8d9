"""The README's animation and the preview of links have margins of paper and the colors of the page, and are small."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from specviz.figures.preview import SIZE
from specviz.web.front.race_payload import build_race_payload
from specviz.web.front.state import load_recorded_race
from tools.front_pictures import ANIMATION, MARGIN, PREVIEW, ROOT, STAMP, build_stamp

THEME = (ROOT / "assets" / "styles" / "theme.css").read_text(encoding="utf-8")
PAPER = 0xFFFFFF


def read_color(name: str) -> int:
    """The light value of a color of the theme."""
    return int(re.search(rf"--{name}: light-dark\(#(\w{{6}})", THEME)[1], 16)


def pack_pixels(image: Image.Image) -> np.ndarray:
    """Each pixel as one number, 0xRRGGBB."""
    return np.asarray(image.convert("RGB")).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)


@pytest.fixture(scope="module")
def animation() -> tuple[list[np.ndarray], list[int]]:
    """Every twelfth frame and the last one, and the time of each in ms."""
    frames, times = [], []
    with Image.open(ANIMATION) as image:
        for place in range(image.n_frames):
            image.seek(place)
            times.append(image.info["duration"])
            if place % 12 == 0 or place == image.n_frames - 1:
                frames.append(pack_pixels(image))
    return frames, times


def test_frames_have_a_margin_of_paper_and_the_colors_of_the_page(animation):
    frames, _ = animation
    inner = MARGIN - 8
    for frame in frames:
        for edge in (frame[:inner], frame[-inner:], frame[:, :inner], frame[:, -inner:]):
            assert (edge == PAPER).all()
    for name in ("target", "draft", "residual"):
        assert max(int((frame == read_color(name)).sum()) for frame in frames) > 200, name


def test_the_animation_is_smooth_small_and_as_long_as_the_race(animation):
    times = animation[1]
    assert len(times) > 80 and ANIMATION.stat().st_size < 2_000_000
    race = times[: next(place for place, time in enumerate(times) if time > 2000)]
    shown = build_race_payload(load_recorded_race(), recorded=True)
    lasts = shown["factor"] * max(lane["seconds"] for lane in shown["lanes"])
    assert max(race) <= 400 and sum(race) / 1000 == pytest.approx(lasts, abs=1.0)


def test_the_preview_has_its_size_margins_and_the_targets_blue():
    with Image.open(PREVIEW) as image:
        assert image.size == SIZE and PREVIEW.stat().st_size < 300_000
        pixels = pack_pixels(image)
    assert int((pixels == read_color("target")).sum()) > 200
    assert all((edge == PAPER).all() for edge in (pixels[:8], pixels[-8:], pixels[:, :8], pixels[:, -8:]))


def test_both_pictures_show_the_sentences_and_numbers_of_the_page():
    """Where this fails, ``python tools/front_pictures.py`` draws them anew."""
    assert json.loads(STAMP.read_text(encoding="utf-8")) == json.loads(json.dumps(build_stamp()))
