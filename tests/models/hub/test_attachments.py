"""What is attached to a model comes by the same way: a folder, or a hub name with a revision."""

from __future__ import annotations

import pytest

from specviz.errors import ModelError
from specviz.models.attachments import exits
from specviz.models.attachments.folder import CONFIG
from tests.proposers.test_early_exit import random_exit


@pytest.fixture
def published(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(exits.EXITS, "admitted", set())
    random_exit(tmp_path / "exit")
    (tmp_path / "exit" / "README.md").write_text("not read")
    return hub.add("owner/exit", tmp_path / "exit")


def test_an_exit_on_the_hub_is_read_with_its_revision(published, pair, hub):
    place = exits.EXITS.place(exits.EXITS.admit("owner/exit@v1.0"), None)
    assert exits.EXITS.once(pair.target, place, exits.load_exit).layer == 1
    assert {line.rpartition("/")[2] for line in hub.asked if "/resolve/" in line} == {CONFIG, exits.WEIGHTS}


@pytest.mark.parametrize("place", ("owner/missing", "owner/exit@v7"))
def test_one_that_the_hub_does_not_have_is_not_admitted(published, place):
    with pytest.raises(ModelError, match=r"has no model|has no revision"):
        exits.EXITS.admit(place)
    assert exits.EXITS.admitted == set()


def test_a_model_is_no_exit(published, hub, pair_folders):
    hub.add("owner/model", pair_folders[0])
    with pytest.raises(ModelError, match=rf"'owner/model' does not hold {exits.WEIGHTS}"):
        exits.EXITS.admit("owner/model")
    assert hub.contents() == []
