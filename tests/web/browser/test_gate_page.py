"""The gate: it plays, stops, is wound back, and shows what the record says."""

import re

import pytest

expect = pytest.importorskip("playwright.sync_api").expect
MODEL = """async (trace) => {
  const { modelOf, windowOf, admittedIn } = await import("/static/js/gate/model.js");
  const model = modelOf(trace);
  const at = (f, m, t) => f(windowOf(model, m, t), m, t);
  const row = (f, t) => model.labels.map((_, m) => at(f, m, t));
  const each = (f) => trace.t.map((_, t) => row(f, t + 1));
  const age = (m, i, t) => t - admittedIn(model, m, i);
  const ages = ({ lo, hi }, m, t) =>
    Array.from({ length: hi - lo }, (_, i) => age(m, lo + i, t));
  return [model.labels, each(({ lo, hi }) => hi - lo), model.held, each(ages)];
}"""


def readout(page, title):
    return page.locator(".readout div", has_text=re.compile(f"^{title}")).locator("dd")


def picture(page):
    return page.locator("canvas.stage-canvas").evaluate("node => node.toDataURL()")


def test_it_plays_pauses_steps_and_is_scrubbed(tab, served):
    page = tab(served, "/gate/done?policy=acdpp", still=False)
    canvas, play = (
        page.locator("canvas.stage-canvas"),
        page.get_by_role("button", name=re.compile("Play|Pause")),
    )
    expect(canvas).to_have_attribute("data-playing", "true")
    expect(readout(page, "Round")).to_have_text("2 / 20")
    expect(readout(page, "Round")).to_have_text("3 / 20")
    canvas.focus()
    page.keyboard.press("Space")
    expect(canvas).to_have_attribute("data-playing", "false")
    stood = picture(page)
    assert picture(page) == stood
    page.keyboard.press("Home")
    expect(readout(page, "Round")).to_have_text("0 / 20")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(readout(page, "Round")).to_have_text("3 / 20")
    page.keyboard.press("ArrowLeft")
    expect(readout(page, "Round")).to_have_text("2 / 20")
    assert picture(page) != stood
    expect(canvas).to_have_attribute(
        "aria-label", re.compile(r"The gate in round 2 of 20\. Price")
    )
    bars = page.locator(".bars").bounding_box()
    page.mouse.click(bars["x"] + 0.5 * bars["width"], bars["y"] + 20)
    expect(readout(page, "Round")).to_have_text(re.compile("^(9|10|11) / 20"))
    page.keyboard.press("End")
    expect(play).to_have_text("Play again")
    page.get_by_label("Speed").select_option("16")
    play.click()
    expect(readout(page, "Round")).not_to_have_text("30 / 20")
    expect(play).to_have_text("Play again")
    expect(page).to_have_url(re.compile("round=20"))


def test_without_a_run_a_rehearsal_is_shown(tab, tmp_path):
    page = tab(tmp_path, "/gate?round=4", still=False)
    expect(page.get_by_text("A rehearsal, without learning")).to_be_visible()
    expect(readout(page, "Round")).to_have_text("4 / 80")
    page.get_by_label("Policy").select_option("constant")
    expect(page).to_have_url(re.compile("policy=constant"))
    expect(page.locator("canvas.stage-canvas")).to_have_attribute(
        "data-playing", "true"
    )


def test_the_tour_explains_and_escape_ends_it(tab, served):
    page = tab(served, "/gate/done?round=1")
    tour = page.get_by_role("region", name="The paper in one minute")
    tour.get_by_role("button", name="Start").click()
    titles = []
    for number in range(1, 7):
        expect(tour.locator(".tour-buttons .numeral")).to_have_text(f"{number} / 6")
        titles.append(tour.get_by_role("heading").text_content())
        if number < 6:
            tour.get_by_role("button", name="Next").click()
    assert titles == [
        "A round",
        "Prices change",
        "Why wait",
        "Debt keeps the promise",
        "What K does",
        "All together",
    ]
    page.keyboard.press("Escape")
    expect(tour.get_by_role("heading")).to_have_text("The paper in one minute")


def test_nothing_plays_by_itself_for_those_who_want_no_motion(tab, served):
    page = tab(served, "/gate/done")
    expect(page.locator("canvas.stage-canvas")).to_have_attribute(
        "data-playing", "false"
    )
    page.get_by_role("button", name="Play").click()
    expect(readout(page, "Round")).to_have_text(re.compile(r"^[1-9]\d* / 20$"))
    value = float(
        page.get_by_role("slider", name="Round").evaluate("handle => handle.value")
    )
    assert value >= 1  # it plays when asked to,
    assert value == int(value)  # from round to round, with nothing in between


def test_windows_and_ages_follow_from_the_record_of_a_run(tab, served):
    page = tab(served)
    for policy in ("acdpp", "hybrid", "headgate"):
        trace = served.get(f"/api/runs/done/trace?policy={policy}&seed=0").json
        _, held, _, ages = page.evaluate(MODEL, trace)
        assert held == trace["held"]
        queues = [[] for _ in trace["buffers"]]
        for t, row in enumerate(trace["admitted_by_client"]):
            for m, count in enumerate(row):
                there = trace["held"][t][m]
                queues[m] = [age + 1 for age in queues[m]] + [0] * int(count)
                missing = int(there) - len(queues[m])
                queues[m] = (
                    [t + 1] * missing + queues[m]
                    if missing > 0
                    else queues[m][-int(there) :]
                    if there
                    else []
                )
                assert ages[t][m] == queues[m]
    labels, _, together, _ = page.evaluate(
        MODEL, trace | {"admitted_by_client": None, "recorded": False}
    )
    assert labels == ["all clients"]
    assert together == [[n] for n in trace["n"]]


def test_many_clients_are_shown_together(tab, served):
    page = tab(served, "/gate/crowded?round=3", still=False)
    expect(readout(page, "Round")).to_have_text("3 / 6")
    assert len(served.get("/api/runs/crowded/trace").json["buffers"]) <= 60
    page.keyboard.press("ArrowRight")
    expect(readout(page, "Round")).to_have_text("4 / 6")
