"""What the page says, and that it says nothing that the runs do not."""

import base64
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

from sim.core.stats import PERCENTILE_METHOD
from sim.plots.catalogue import Material, telling
from sim.report.figures import WIDTH_IN
from sim.report.page import report
from sim.results.comparison import compare_variants
from sim.results.report_rows import report_rows
from sim.results.stored import StoredRun
from sim.scenario.load import load_text
from tests.command import podsim
from tests.plots.tables import check_readable
from tests.report.conftest import HOSTILE

Stored = tuple[StoredRun, ...]
MOST_BYTES = 2_000_000
RING = "a-bounded-ring-with-a-name-that-goes-on-for-sixty-characters"


def text_of(page: str) -> str:
    """What a reader sees, without drawings, in single spaces."""
    body = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def cells(page: str, table: str) -> dict[str, list[str]]:
    """The cells of the first table of a class, by the head of their row."""
    (found,) = re.findall(rf'<table class="{table}">.*?</table>', page, flags=re.DOTALL)[:1]
    return {
        unescape(head): [unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", rest)]
        for head, rest in re.findall(r'<tr><th scope="row"[^>]*>(.*?)</th>(.*?)</tr>', found)
    }


def test_it_shows_the_rows_of_the_terminal(shop: Stored, shop_page: str):
    """A manager and an engineer would argue about two tables of the same runs."""
    results = [run.read() for run in shop]
    comparison = compare_variants(results)
    variants = list(dict.fromkeys(run.variant for run in shop))
    expected = {
        row.label.strip(): [row.written(comparison[row.key][name], 3) for name in variants]
        for row in report_rows(comparison)
    }
    assert cells(shop_page, "figures") == expected
    assert "±" in expected["TTFT p95, s"][0]


def test_question_and_answer_come_first(shop: Stored, shop_page: str):
    """The first screen would not say what was asked, or what came out."""
    said = text_of(shop_page)
    question = said.index("Does it matter where sessions live?")
    answers = [said.index(words) for words in ("Requests within the SLO", "TTFT p95 is lowest")]
    assert question < min(answers) < max(answers) < said.index("What was run")
    comparison = compare_variants([run.read() for run in shop])["ttft_s.p95"]
    best = min(comparison, key=lambda name: comparison[name]["mean"])
    assert f"TTFT p95 is lowest with {best}, {comparison[best]['mean']:.2f} s" in said


def test_it_says_how_the_figures_came_about(shop_page: str):
    """A percentile could be of any kind, a mean over anything, a load of any loop."""
    said = text_of(shop_page)
    assert PERCENTILE_METHOD in said
    assert "a percentile is the mean of the runs' percentiles, not the percentile of all" in said
    assert "Requests that arrived from 10 s to 100 s of simulated time" in said
    assert "means over the polls of the pods, one every 1 s" in said
    assert "16 agents, closed loop" in said
    assert "time of the first" not in said


def test_open_loop_and_scripted_traffic_are_told_apart(both_page: str):
    """Slow answers look harmless where nobody waits for them: the loop has to be named."""
    said = text_of(both_page)
    assert "Workload people open loop: requests arrive at times drawn beforehand" in said
    assert "Workload rows scripted" in said


def test_where_it_comes_from(shop: Stored, shop_page: str):
    """Nobody could tell which runs these are, or that the folder had been changed."""
    said = text_of(shop_page)
    assert [run.digest for run in shop if run.digest not in said] == []
    assert shop[0].scenario_hash in said
    assert "Commit of its folder 0123456789ab-dirty" in said
    assert "commit 0123456789ab had been changed in its folder" in said
    assert "2026-01-02T03:04:05+00:00" in said
    assert f"podsim {shop[0].manifest['podsim']}, python" in said


def test_the_scenario_in_it_gives_the_same_digests(shop: Stored, shop_page: str, tmp_path: Path):
    """What the page calls a recipe would make something else."""
    name, data = re.findall(
        r'download="([^"]+)" href="data:application/yaml;base64,([^"]+)"', shop_page
    )[0]
    text = base64.b64decode(data).decode()
    assert unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", shop_page, re.DOTALL)[0]) == text
    assert load_text(text).scenario_hash == shop[0].scenario_hash
    (tmp_path / name).write_text(text, encoding="utf-8")
    (command,) = re.findall(r"Run <code>podsim (run .*?)</code>", shop_page)
    arguments = [*command.replace(name, str(tmp_path / name)).split(), "--seed", "2", "--no-store"]
    ran = podsim(*arguments)
    assert ran.exit_code == 0
    assert re.findall(r'"digest": "(\w+)"', ran.stdout) == [
        run.digest for run in shop if run.seed == 2
    ]


def test_what_users_write_is_text(shop_page: str, both_page: str):
    """Whoever names a scenario could put a program into other people's pages."""
    for page in (shop_page, both_page):
        assert "<script" not in page
        assert "<b>" not in page
        assert HOSTILE in text_of(page)  # the description, and not 49 for {{ 7 * 7 }}
    assert f"<title>{HOSTILE}</title>" not in both_page
    assert HOSTILE in unescape(re.findall("<h1>(.*?)</h1>", both_page)[0])


def test_it_is_small_and_names_no_other_place(shop_page: str, both_page: str):
    """It could not be mailed, or would need a network."""
    for page in (shop_page, both_page):
        assert len(page.encode()) < MOST_BYTES
        places = re.findall(r'(?:src|href|action)="([^"#][^"]{0,20})', page)
        assert [place for place in places if not place.startswith("data:")] == []
        assert "url(http" not in page and "@import" not in page
        assert re.search(r"default-src 'none'; style-src 'sha256-[^']+'; img-src data:", page)


def test_each_figure_says_what_is_seen(shop: Stored, shop_page: str):
    """A drawing would stand there without a finding, or with one of other runs."""
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", shop_page, re.DOTALL)
    labels = [unescape(text) for text in re.findall(r'alt="([^"]*)"', shop_page)]
    assert len(captions) == len(labels) == 6
    for caption, text in zip(captions, labels, strict=True):
        assert text_of(caption).startswith(text)
    comparison = compare_variants([run.read() for run in shop])
    p50 = {name: figure["mean"] for name, figure in comparison["ttft_s.p50"].items()}
    half = f"{p50['least-loaded']:.2f} s (least-loaded), {p50[RING]:.2f} s ({RING}) and"
    assert f"Half of the requests have their first token within {half}" in labels[0]
    usage = shop[0].summary()["kv_usage"]
    assert f"Requests hold {usage['mean'] * 100:.1f} % of the KV blocks" in " ".join(labels)


def test_figures_are_readable_with_names_of_any_length(shop: Stored):
    """On a page as wide as a phone a long name would be cut off at the edge."""
    material = Material(shop)
    for kind in telling(material):
        check_readable(kind.draw(material, WIDTH_IN, bare=True))


def test_variants_are_judged_over_paired_seeds(shop_page: str):
    """Means beside each other would be taken for proof."""
    verdicts = cells(shop_page, "verdicts")
    assert {"TTFT p95, s", "prompt cache hit, %", "errors, %"} <= verdicts.keys()
    words = {"better", "worse", "same", "inconclusive", "identical", "changed", "not comparable"}
    found = [
        re.findall("<strong>(.*?)</strong>", cell) for row in verdicts.values() for cell in row
    ]
    assert {word for each in found for word in each} <= words
    assert all(len(row) == 2 for row in verdicts.values())


def test_one_run_has_no_intervals_and_no_verdicts(card_page: str):
    """A single seed would look as certain as many."""
    assert "±" not in text_of(card_page)
    assert 'class="verdicts"' not in card_page
    assert "so there are no intervals" in text_of(card_page)


def test_the_same_runs_give_the_same_bytes(card: Stored, card_page: str, tmp_path: Path):
    """Two people with the same runs would have two reports to compare."""
    page = tmp_path / "page.html"
    subprocess.run(
        [sys.executable, "-m", "sim.cli", "report", str(card[0].path), "-o", str(page)],
        env={"PYTHONHASHSEED": "4711", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    assert page.read_text("utf-8") == card_page


def test_doubts_about_the_scenario_file_are_notices(card: Stored):
    """A run said on the terminal that the file is doubtful, and its report did not."""
    (run, *_) = card
    doubtful = StoredRun(
        run.path, {**run.manifest, "scenario_warnings": ["card.yaml:3: <b>odd</b>"]}
    )
    said = text_of(report([doubtful, *card[1:]]))
    assert said.count("Scenario file: card.yaml:3: <b>odd</b>") == 1


def test_one_seed_each_has_no_intervals_whichever_it_is(shop: Stored):
    """The heading spoke of means and intervals, the text below of neither."""
    first, second = [run for run in shop if run.variant != shop[0].variant][:1], shop[1:2]
    assert first[0].seed != second[0].seed
    said = text_of(report([*first, *second]))
    assert "One run per variant, not all under the same seed." in said
    assert "± half-width" not in said


def test_a_part_stands_below_its_whole(shop_page: str):
    """ "reason bound" lost its indent, and looked like a figure beside the spills it is part of."""
    assert '<th scope="row" class="below">reason bound, count</th>' in shop_page
    assert '<th scope="row">spilled placements, %</th>' in shop_page


def test_what_variants_change_is_said_without_defaults(shop_page: str):
    """A manager read "headers [], ... maxLoadPercent null" of a table that nobody had tuned."""
    values = re.findall(r'<td data-column="Value">(.*?)</td>', shop_page)
    assert values == ["least-loaded", "bounded-ring, maxLoadPercent 110", "session-table"]


def test_every_value_names_its_column(shop_page: str):
    """On a phone a row is a block: without its column's name a value would belong to nobody."""
    tables = re.findall(r"<tbody>.*?</tbody>", shop_page, flags=re.DOTALL)
    assert tables
    for cell in re.findall(r"<td[^>]*>", "".join(tables)):
        assert 'data-column="' in cell
