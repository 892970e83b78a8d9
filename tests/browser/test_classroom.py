"""A lesson in three browsers: a teacher's laptop, a phone that is tapped, a student who has only a keyboard; and the wall.

A reload, a connection that drops and a server that is started anew in the middle lose nothing and count nothing twice.
"""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import at_rest
from tests.browser.conftest import laptop, run_server
from tests.browser.test_accessibility import found_in_both_schemes, list_violations
from tools.processes import find_free_port

SMALLEST = """() => {
    const seen = document.createTreeWalker(document.querySelector(".stMain"), NodeFilter.SHOW_TEXT);
    const sizes = [];
    while (seen.nextNode()) {
        const around = seen.currentNode.parentElement, box = around.getBoundingClientRect();
        if (seen.currentNode.textContent.trim() && box.width && box.height && !around.closest("style")) sizes.push(parseFloat(getComputedStyle(around).fontSize));
    }
    return Math.min(...sizes);
}"""


FOCUSED = '() => [document.activeElement.className, document.activeElement.getAttribute("role")]'


class Server:
    """One that can be started anew under its address."""

    def __init__(self, opening, folder):
        self.opening, self.folder, self.port, self.times = opening, folder, find_free_port(), 0
        self.stack = ExitStack()

    def start(self) -> str:
        self.times += 1
        return self.stack.enter_context(run_server(self.opening, self.folder / f"log-{self.times}.txt", port=self.port))

    def stop(self) -> None:
        self.stack.close()


@pytest.fixture
def own_server(opening, tmp_path):
    server = Server(opening, tmp_path)
    yield server
    server.stop()


def open_room(page: Page, address: str) -> tuple[str, str]:
    """A room with a short code in sight: (address of its wall, the code)."""
    page.goto(f"{address}/classroom")
    page.get_by_role("button", name="Open a room").click()
    expect(page.locator(".room-short")).to_be_visible()
    wall = page.get_by_role("link", name="Open the page for the projector").get_attribute("href")
    return wall, page.locator(".room-short").inner_text()


def begin(page: Page, task: str) -> None:
    page.get_by_role("button", name=task, exact=True).click()
    expect(page.get_by_role("heading", name=re.compile(rf"Task \d+: {re.escape(task)}"))).to_be_visible()


def open_phone(browser: Browser) -> Page:
    return laptop(
        browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce")
    )


def has(page: Page, n: int) -> None:
    """A student's page says how many samples are theirs."""
    expect(page.locator(".sent")).to_contain_text(f"You have {n} of")


def steps(page: Page, go) -> None:
    """Through every moment of a first sample."""
    while page.get_by_role("button", name="Next").is_visible():
        go()


def test_a_lesson_survives_a_reload_a_lost_connection_and_a_new_server(own_server, browser):
    address = own_server.start()
    desk = browser.new_context()
    teacher, phone, keys, wall = laptop(desk), open_phone(browser), laptop(browser.new_context()), laptop(desk)
    wall.set_viewport_size({"width": 1920, "height": 1080})
    link, short = open_room(teacher, address)
    wall.goto(link)
    expect(wall.locator(".room-short")).to_have_text(short)

    phone.goto(f"{address}/classroom")
    phone.get_by_label("Code of the room").fill("no")
    phone.get_by_role("button", name="Join", exact=True).tap()
    expect(phone.locator("#notice")).not_to_be_empty()  # the students' page, with what was typed
    phone.get_by_label("The code on the projector").fill(short.lower())
    phone.get_by_role("button", name="Join", exact=True).tap()
    expect(phone.get_by_role("heading", name="You are in")).to_be_visible()
    keys.goto(link.removesuffix("/wall"))
    expect(keys.get_by_role("heading", name="You are in")).to_be_visible()
    expect(wall.get_by_text("2 students in. No task yet.")).to_be_visible()

    begin(teacher, "Sample")
    phone.get_by_role("button", name="Draw your first sample").tap()
    has(phone, 1)
    steps(phone, phone.get_by_role("button", name="Next").tap)
    phone.get_by_role("button", name="100 more").tap()
    has(phone, 101)
    expect(keys.get_by_role("button", name="Draw your first sample")).to_be_visible()
    keys.keyboard.press("Tab")
    keys.keyboard.press("Enter")
    has(keys, 1)
    steps(keys, lambda: keys.keyboard.press("Enter"))
    expect(wall.get_by_role("img", name=re.compile("102 samples"))).to_be_visible()
    assert wall.evaluate(SMALLEST) >= 24

    phone.reload()
    has(phone, 101)
    phone.context.set_offline(True)
    phone.get_by_role("button", name="10 more", exact=True).tap()
    expect(phone.locator("#line")).to_contain_text("nothing is lost")
    phone.context.set_offline(False)
    has(phone, 111)

    own_server.stop()
    phone.get_by_role("button", name="10 more", exact=True).tap()
    expect(phone.locator("#line")).to_contain_text("nothing is lost")
    expect(wall.get_by_role("dialog")).to_be_hidden()  # Streamlit's, for programmers
    own_server.start()
    has(phone, 121)
    keys.reload()
    has(keys, 1)
    expect(wall.get_by_role("img", name=re.compile("122 samples"))).to_be_visible()
    assert not wall.get_by_text("results of this page are no longer on the server").count(), (
        "nothing was lost, and nothing covers the wall"
    )

    teacher.reload()
    begin(teacher, "Predict")
    expect(keys.get_by_role("heading", name="Predict")).to_be_visible()
    keys.get_by_role("radio", name="Accepted").focus()  # the first Tab comes here
    keys.keyboard.press("Space")
    keys.keyboard.press("Tab")
    keys.keyboard.press("ArrowRight")
    keys.keyboard.press("Tab")
    keys.keyboard.press("Enter")
    expect(keys.locator(".sent")).to_have_text("You said: accepted, 51% for accepted. Look at the wall.")
    assert keys.evaluate(FOCUSED) == ["sent", "status"], "who sent by keyboard goes on at what is said of it"
    expect(wall.get_by_text("1 prediction so far.")).to_be_visible()
    teacher.get_by_role("button", name="Show what happened").click()
    expect(keys.locator(".came")).to_contain_text("Your random number")
    expect(phone.locator(".came")).to_contain_text("min(1, p/q)")
    expect(wall.locator(".calibration")).to_be_visible()
    assert wall.evaluate(SMALLEST) >= 24
    assert [one.mistakes for one in (teacher, phone, keys, wall)] == [[]] * 4


def tab_to(page: Page, name: str, role: str = "button") -> None:
    """With Tab alone, as somebody without a pointer does."""
    wanted = page.get_by_role(role, name=re.compile(f"^{re.escape(name)}"))
    for _ in range(12):
        page.keyboard.press("Tab")
        if wanted.evaluate("(node) => node === document.activeElement"):
            return
    raise AssertionError(f"Tab does not come to {name}")


def test_a_student_with_a_keyboard_votes_and_races_on_a_narrow_screen(server, browser, context):
    """Which mistake? and Race at 390 pixels; what was sent is told, and the class's findings too."""
    teacher, keys = laptop(context), laptop(browser.new_context(viewport={"width": 390, "height": 844}))
    link, _ = open_room(teacher, server)
    keys.goto(link.removesuffix("/wall"))
    expect(keys.get_by_role("heading", name="You are in")).to_be_visible()
    begin(teacher, "Which mistake?")
    for turn in ("Vote again, after talking", "Show the votes and the answer"):
        expect(keys.get_by_role("button", name="Vote")).to_be_visible()
        keys.locator("h1").focus()
        keys.keyboard.press("Tab")
        keys.keyboard.press("Space")
        tab_to(keys, "Vote")
        keys.keyboard.press("Enter")
        expect(keys.locator(".sent")).to_contain_text("Your vote: ")
        assert keys.evaluate(FOCUSED) == ["sent", "status"]
        teacher.get_by_role("button", name=turn).click()
    expect(keys.locator("#class")).to_contain_text("It is: ")
    expect(keys.locator(".came")).to_contain_text("before, ")
    begin(teacher, "Race")
    expect(keys.get_by_role("button", name="Race")).to_be_visible()
    keys.locator("h1").focus()
    tab_to(keys, "Draft model", "radio")
    keys.keyboard.press("ArrowDown")
    tab_to(keys, "Draft tokens per round (gamma)", "slider")
    keys.keyboard.press("ArrowLeft")
    tab_to(keys, "Race")
    keys.keyboard.press("Enter")
    expect(keys.locator(".sent")).to_contain_text("tokens per pass")
    assert keys.evaluate(FOCUSED) == ["sent", "status"]
    assert keys.get_by_role("cell", name="3", exact=True).count() >= 1
    assert keys.evaluate("document.documentElement.scrollWidth") <= 390
    assert list_violations(keys) == []
    assert [one.mistakes for one in (teacher, keys)] == [[]] * 2


def test_a_closed_door_tells_a_newcomer_and_lets_them_in_when_it_opens(server, browser, context):
    teacher, late = laptop(context), open_phone(browser)
    link, _ = open_room(teacher, server)
    teacher.get_by_role("button", name="Let nobody else in").click()
    expect(teacher.get_by_text("Nobody else can come in.")).to_be_visible()
    late.goto(link.removesuffix("/wall"))
    expect(late.locator("#line")).to_contain_text("The door of this room is closed.")
    teacher.get_by_role("button", name="Let students in again").click()
    expect(late.get_by_role("heading", name="You are in")).to_be_visible()
    expect(late.locator("#line")).to_be_empty()


def test_desk_wall_and_phone_have_no_serious_finding(browser, server):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, color_scheme="light", reduced_motion="reduce")
    teacher, wall, student = laptop(context), laptop(context), laptop(context)
    link, _ = open_room(teacher, server)
    student.goto(link.removesuffix("/wall"))
    expect(student.get_by_role("heading", name="You are in")).to_be_visible()
    at_rest(teacher)
    assert found_in_both_schemes(teacher) == []
    begin(teacher, "Sample")
    student.get_by_role("button", name="Draw your first sample").click()
    has(student, 1)
    wall.goto(link)
    expect(wall.get_by_role("img", name=re.compile("1 sample"))).to_be_visible()
    at_rest(teacher)
    assert {name: found_in_both_schemes(page) for name, page in (("desk", teacher), ("wall", wall), ("phone", student))} == {
        "desk": [],
        "wall": [],
        "phone": [],
    }
