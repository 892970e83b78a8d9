"""The README's animation and the preview of links have margins of paper and the colors of the page, and are small."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image, ImageSequence

from specviz.figures.preview import SIZE
from specviz.web.front.race_payload import LASTS
from tools.front_pictures import ANIMATION, MARGIN, PREVIEW, ROOT

THEME = (ROOT / "assets" / "styles" / "theme.css").read_text(encoding="utf-8")
PAPER = 255


def read_color(name: str) -> tuple[int, ...]:
    """The light value of a color of the theme."""
    value = re.search(rf"--{name}: light-dark\(#(\w{{6}})", THEME)[1]
    return tuple(int(value[place : place + 2], 16) for place in (0, 2, 4))


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    with Image.open(ANIMATION) as image:
        return [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(image)]


def test_every_frame_has_a_margin_of_paper_and_nothing_is_cut(frames):
    for frame in frames:
        for edge in (frame[: MARGIN - 8], frame[8 - MARGIN :], frame[:, : MARGIN - 8], frame[:, 8 - MARGIN :]):
            assert (edge == PAPER).all()


@pytest.mark.parametrize("name", ["target", "draft", "residual"])
def test_the_colors_of_the_frames_are_those_of_the_page(frames, name):
    count = max(int((frame == read_color(name)).all(2).sum()) for frame in frames)
    assert count > 200, name


def test_the_animation_is_smooth_small_and_as_long_as_the_race():
    with Image.open(ANIMATION) as image:
        times = [frame.info["duration"] for frame in ImageSequence.Iterator(image)]
    assert len(times) > 80 and ANIMATION.stat().st_size < 2_000_000
    race = times[: next(place for place, time in enumerate(times) if time > 2000)]
    assert max(race) <= 400 and sum(race) / 1000 == pytest.approx(LASTS, abs=1.0)


def test_the_preview_has_its_size_and_the_targets_blue():
    with Image.open(PREVIEW) as image:
        assert image.size == SIZE and PREVIEW.stat().st_size < 300_000
        pixels = np.asarray(image.convert("RGB"))
    assert int((pixels == read_color("target")).all(2).sum()) > 200
    assert (pixels[:8] == PAPER).all() and (pixels[-8:] == PAPER).all()
