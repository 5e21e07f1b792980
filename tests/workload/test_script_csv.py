"""Scripted rows in CSV files: units, order, faults with their place, encodings."""

import gzip

import pytest
from xxhash import xxh3_64_intdigest

from sim.core.errors import ScenarioError
from sim.workload.script import Script, ScriptSpec
from tests.workload.fakes import content, run

HEADER = "arrival_s,think_s,session,promptTokens,outputTokens\n"
PLAIN = HEADER + "0,,a,100,50\n1,,b,100,50\n,5,a,200,50\n"


@pytest.fixture
def play(tmp_path):
    """Write a file and run it as a script."""

    def run_file(text, **keys):
        data = text if isinstance(text, bytes) else text.encode()
        (tmp_path / "trace.csv").write_bytes(data)
        spec = ScriptSpec.model_validate({"kind": "script", "file": "trace.csv", **keys})
        return run({"bug": (Script, spec)}, directory=tmp_path)

    return run_file


@pytest.fixture
def faults(play, tmp_path):
    """What is said about a file, one ``line:column: header: message`` each."""

    def run_file(text, **keys):
        with pytest.raises(ScenarioError) as caught:
            play(text, **keys)
        prefix = f"{tmp_path / 'trace.csv'}:"
        lines = str(caught.value).splitlines()
        assert all(line.startswith(prefix) for line in lines)
        return [line.removeprefix(prefix).strip() for line in lines]

    return run_file


def same(one, other):
    return content(one.requests) == content(other.requests) and one.arrivals() == other.arrivals()


def test_a_file_says_what_rows_say(play):
    """If this fails, a bug report as CSV and the same one as YAML are two workloads."""
    rows = (
        {"arrival": 0, "session": "a", "promptTokens": 100, "outputTokens": 50},
        {"arrival": 1, "session": "b", "promptTokens": 100, "outputTokens": 50},
        {"think": 5, "session": "a", "promptTokens": 200, "outputTokens": 50},
    )
    spec = ScriptSpec.model_validate({"kind": "script", "rows": rows})
    read, written = play(PLAIN), run({"bug": (Script, spec)})
    for request in written.requests:  # a file's sessions go by another name, see below
        name = request.session_id.removeprefix("bug/")
        request.session_id = f"bug/{xxh3_64_intdigest(name.encode()):016x}"
    assert same(read, written)


def test_sessions_of_a_file_do_not_stand_in_tables_as_they_were_sent(play):
    """A log of somebody's router put names of users into tables, traces and reports; the router
    itself keeps 64 bits of a session.
    """
    first, second, again = play(PLAIN.replace(",a,", ",alice@example.com,")).requests
    assert "alice" not in first.session_id
    assert first.session_id == again.session_id != second.session_id
    assert len(first.session_id.removeprefix("bug/")) == 16
    assert first.session_key == again.session_key


def test_every_key_of_a_row_is_a_column(play):
    """If this fails, a column is read under the wrong key, or not at all."""
    ran = play(
        "id,session,turn,arrival_ms,think_ms,prompt_tokens,output_tokens,"
        "shared_prefix,shared_tokens,kept_tokens,model,cancel_us\n"
        "r1,a,1,1500,,1k,50,p,40,,qwen,\n"
        'r2,a,2,,250,2000,50,,,300,"qwen",500000\n'
    )
    first, second = ran.requests
    assert ran.arrivals() == [1.5, 2.75]
    assert (first.prompt.tokens, first.output_tokens, first.model) == (1000, 50, "qwen")
    assert first.prompt.node.start == 40
    assert second.prompt.common_prefix(first.prompt) == 300
    assert (second.status, second.end_s) == ("cancelled", 3.25)


@pytest.mark.parametrize(
    ("header", "keys", "last_s"),
    [
        ("arrival_ms", {}, 9.0),
        ("arrival_s", {}, 9000.0),
        ("arrival_us", {}, 0.009),
        ("arrival", {"unit": "ms"}, 9.0),
        ("arrival", {"unit": "s"}, 9000.0),
        ("arrival_s", {"unit": "ms"}, 9000.0),
    ],
)
def test_stamps_have_the_unit_of_the_header_else_of_the_scenario(play, header, keys, last_s):
    """C69: if this fails, a trace in ms is offered a thousand times too slowly or too fast."""
    stamps = "".join(f"{stamp},10,1\n" for stamp in range(0, 10_000, 1000))
    ran = play(f"{header},promptTokens,outputTokens\n{stamps}", **keys)
    assert ran.arrivals()[-1] == last_s


def test_milliseconds_are_divided_not_multiplied(play):
    """If this fails, 14.8 ms is not the nearest number to 0.0148 s and ties break."""
    assert play("arrival_ms,promptTokens,outputTokens\n14.8,1,1\n").arrivals() == [0.0148]


def test_swapped_rows_are_sorted_and_counted(play):
    """C74 (i): if this fails, a disordered file runs as another workload, or goes unnoticed."""
    header = "arrival_s,session,promptTokens,outputTokens\n"
    ordered = play(header + "0,a,10,1\n1,b,20,1\n2,c,30,1\n2,d,40,1\n")
    swapped = play(header + "1,b,20,1\n0,a,10,1\n2,c,30,1\n2,d,40,1\n")
    assert same(ordered, swapped)
    assert ordered.counts["bug"]["rows_out_of_order"] == 0
    assert swapped.counts["bug"]["rows_out_of_order"] == 1


LEGAL = "must be a duration such as 30s or 250ms, from 0 to 366d; got"
COUNT = "must be a whole number of tokens such as 75k, from 1 to 1000G; got"
UNITS = "arrival_s, arrival_ms or arrival_us"
BARE = "must be a bare number where firstArrival or speed moves it; got"
REFUSED = {
    "C69: milliseconds would be taken for seconds": (
        "promptTokens,arrival,outputTokens\n10,0,1\n",
        f"1:14: arrival: times need a unit: name the column {UNITS}, or give unit in the scenario",
    ),
    "C74: a bad stamp would become 0, a traceback, or hide the next fault": (
        "id,turn,arrival_s,session,promptTokens,outputTokens\n"
        "r1,1,-5,a,10,1\nr2,1,,b,10,1\nr3,1,soon,c,10,1\nr4,1,nan,d,10,1\nr5,1,0,e,10\n"
        "r6,1,0,f,0,1\nr7,1,0,g,,1\n",
        f"2:6: arrival_s: {LEGAL} '-5'",
        "3:6: arrival_s: missing: a row needs arrival, or think after the row before it",
        f"4:6: arrival_s: {LEGAL} 'soon'",
        f"5:6: arrival_s: {LEGAL} 'nan'",
        "6:1: has 5 values, the header names 6 columns",
        f"7:10: promptTokens: {COUNT} '0'",
        "8:10: promptTokens: missing: every row needs one",
    ),
    "C74: a doubled id or a turn before its turn would pass": (
        "id,turn,arrival_s,think_s,session,promptTokens,outputTokens\n"
        'r1,2,0,,a,10,1\nr2,1,1,,a,20,1\n"r1",,2,,,10,1\nr4,,,5,z,10,1\n',
        "2:4: turn: turn 2 of session 'a' comes as its turn 1",
        "3:4: turn: turn 1 of session 'a' comes as its turn 2",
        "4:1: id: 'r1' is the id of row 1 already",
        "5:6: think_s: the first row of a session needs an arrival",
    ),
    "the user would be told that '' is an unknown column": (
        "arrival_s,promptTokens,outputTokens,\n0,1,1,\n",
        "1:37: column 4 has no name; is there a comma too many?",
    ),
    "a comma too many would be shown where nothing is wrong": (
        "arrival_s,promptTokens,outputTokens\n0,1,1,\n",
        "2:7: has 4 values, the header names 3 columns",
    ),
    "C74: a missing column would become a default for every row": (
        "model\nm\n",
        f"1:1: the column {UNITS} is missing",
        "1:1: the column outputTokens is missing",
        "1:1: the column promptTokens is missing",
    ),
    "a mistyped column would be ignored and its values with it": (
        "arrival_s,arrival_ms,promptToken,promptTokens,outputTokens\n0,0,1,1,1\n",
        "1:11: arrival_ms: a second column for arrival",
        "1:22: promptToken: unknown column; 'promptTokens' is there already",
    ),
    "input_tokens, as other tools have it, was to be 'outputTokens'": (
        "timestamp,num_prefill_tokens,completion_tokens\n1,2,3\n",
        f"1:1: timestamp: unknown column; did you mean {UNITS}?",
        "1:11: num_prefill_tokens: unknown column; did you mean 'promptTokens'?",
        "1:30: completion_tokens: unknown column; did you mean 'outputTokens'?",
    ),
    "a name that is there was suggested again": (
        "arrival_time_us,prompt_tokens,input_tokens,outputTokens\n1,2,3,4\n",
        "1:1: arrival_time_us: unknown column; did you mean 'arrival_us'?",
        "1:31: input_tokens: unknown column; 'promptTokens' is there already",
    ),
    "C75: an empty trace would give an empty report that looks like success": (
        "\n\n",
        "is empty; it needs a header and at least one row",
    ),
    "C75: and so would one without rows": (
        HEADER + "\n",
        "1:1: has a header but no rows; at least one is needed",
    ),
}


@pytest.mark.parametrize("story", REFUSED)
def test_every_fault_of_a_file_has_its_place(faults, story):
    """Each story says what would happen otherwise."""
    text, *said = REFUSED[story]
    assert faults(text) == said


@pytest.mark.parametrize("keys", [{"speed": 2}, {"firstArrival": 0}])
def test_a_stamp_that_cannot_be_moved_is_refused(faults, keys):
    """One row of a trace would stay where it was and all others move, or a short row be a
    traceback."""
    text = "arrival_s,promptTokens,outputTokens\n0,1,1\n5s,1,1\nsoon,1,1\n"
    said = [f"3:1: arrival_s: {BARE} '5s'", f"4:1: arrival_s: {BARE} 'soon'"]
    assert faults(text, **keys) == said
    assert faults(text[:37], **keys) == ["2:1: has 1 values, the header names 3 columns"]


def test_turns_follow_their_arrivals(play):
    """C74 (v): if this fails, rows that sorting puts right are refused."""
    ran = play("turn,arrival_s,session,promptTokens,outputTokens\n2,9,a,20,1\n1,0,a,10,1\n")
    assert [(request.turn, request.arrival_s) for request in ran.requests] == [(1, 0.0), (2, 9.0)]


def test_unknown_models_are_refused_before_the_run(tmp_path):
    """C74 (vi): if this fails, requests for a model that nobody serves are dropped in silence."""
    (tmp_path / "t.csv").write_text(
        "arrival_s,model,promptTokens,outputTokens\n0,gpt,1,1\n1,gpt,1,1\n"
    )
    spec = ScriptSpec.model_validate({"kind": "script", "file": "t.csv"})
    said = r"t\.csv:2:3: model: no backend serves 'gpt' \(the first of 2 rows\); served: qwen"
    with pytest.raises(ScenarioError, match=said):
        run({"bug": (Script, spec)}, directory=tmp_path, models=("qwen",))


def test_blank_lines_are_nothing(play):
    """C74 (viii): if this fails, the newline at the end of a file is a request."""
    assert same(play(PLAIN), play("  \n" + PLAIN.replace("\n1,", "\n\n \t \n1,") + "\n  \n"))


@pytest.mark.parametrize(
    "cell", ["1_00", "\u0661\u0660", "\u0661k", "\uff11", "1e", "0x10", "+-1", "inf"]
)
def test_what_only_python_takes_for_a_number_is_refused(faults, cell):
    """C74: if this fails, a slip in a cell is read as a number that nobody wrote."""
    (line,) = faults(f"arrival_s,promptTokens,outputTokens\n0,{cell},1\n")
    assert line.startswith("2:3: promptTokens: must be a whole number of tokens ")
    assert line.endswith(f"; got {cell!r}")


@pytest.mark.parametrize("cell", ["100", "+100", "100.", "1e2", "1.0E+2", "0.1k"])
def test_every_usual_way_to_write_a_number_is_read(play, cell):
    """If this fails, the numbers of some other program are refused."""
    (request,) = play(f"arrival_s,promptTokens,outputTokens\n.5,{cell},1\n").requests
    assert (request.arrival_s, request.prompt.tokens) == (0.5, 100)


@pytest.mark.parametrize("slip", ["arival_s", "prompttoken", "output_token"])
def test_a_mistyped_column_is_one_line(faults, slip):
    """If this fails, one slip of the pen is reported as two, a column too many and one missing."""
    right = {"arival_s": "arrival_s", "prompttoken": "promptTokens", "output_token": "outputTokens"}
    header = "arrival_s,promptTokens,outputTokens".replace(right[slip], slip)
    (line,) = faults(f"{header}\n0,1,1\n")
    assert line.endswith(f"{slip}: unknown column; did you mean {right[slip]!r}?")


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(),
    ],
)
def test_marks_and_line_ends_change_nothing(play, data):
    """C76: if this fails, the first column of a file saved by a spreadsheet is not found."""
    assert same(play(PLAIN), play(data))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PLAIN.replace("b,", "b\xfc,").encode("latin-1"), "3:5: byte 0xfc is not UTF-8"),
        (PLAIN.encode("utf-16"), "1:1: UTF-16 or UTF-32 text"),
        (PLAIN.replace("b,", "b\0,").encode(), "3:5: a NUL byte"),
        (PLAIN.replace(",", ";").encode(), "1:1: columns must be separated by commas"),
        (PLAIN.replace("b,", '"b,').encode(), "3:1: is not CSV: unexpected end of data"),
    ],
)
def test_other_encodings_and_separators_are_refused(faults, data, said):
    """C76: if this fails, a file in another encoding is read as rubbish or ends in a traceback."""
    (only,) = faults(data)
    assert only.startswith(said)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    """If this fails, a mistyped file name ends in a traceback."""
    spec = ScriptSpec.model_validate({"kind": "script", "file": "missing.csv"})
    assert spec.files() == ("missing.csv",)
    with pytest.raises(ScenarioError, match=r"missing\.csv: cannot be read: no such file"):
        run({"bug": (Script, spec)}, directory=tmp_path)


EPOCH = "".join(f"{1_700_000_000_000 + stamp},10,1\n" for stamp in range(0, 10_000, 1000))


def test_stamps_of_any_clock_count_from_the_first(play):
    """C69: if this fails, a trace with the time of day starts after fifty years, or loses gaps to
    rounding."""
    ran = play(f"arrival_ms,promptTokens,outputTokens\n{EPOCH}", firstArrival="5s")
    assert ran.arrivals() == [5.0 + second for second in range(10)]
    ran = play("arrival_s,promptTokens,outputTokens\n3,1,1\n-2,1,1\n0,1,1\n", firstArrival=0)
    assert ran.arrivals() == [0.0, 2.0, 5.0]


@pytest.mark.parametrize(("speed", "last_s"), [(1, 9.0), (2, 4.5), (0.5, 18.0)])
def test_a_speed_divides_gaps_and_no_think_times(play, speed, last_s):
    """C69: if this fails, twice the load is half of it, or users think faster, too."""
    stamps = "".join(f"{second},,,10,1\n" for second in range(10))
    ran = play(f"{HEADER}{stamps}", speed=speed)
    assert ran.arrivals()[-1] == last_s
    ran = play(f"{HEADER}4,,a,100,50\n6,,b,100,50\n,5,a,200,50\n", speed=speed, firstArrival="1s")
    first, second, third = ran.requests
    assert (first.arrival_s, second.arrival_s) == (1.0, 1.0 + 2 / speed)
    assert third.arrival_s - first.end_s == 5.0


def test_a_gzipped_file_is_read(play):
    """Traces lie packed: it was "byte 0x8b is not UTF-8"."""
    assert same(play(gzip.compress(PLAIN.encode())), play(PLAIN))


REQUIRED = "promptTokens,outputTokens\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            b'{"timestamp": 0, "input_length": 9, "hash_ids": [1]}',
            "is a trace of Mooncake's form",
        ),
        (
            b'{"podsim_trace": 1, "workloads": []}',
            "is a trace that podsim has exported",
        ),
        (b'{"arrival_s": 0, "sequence_block_runs": []}', "is a recording: kind: recording"),
        (b'[\n{"prompt": 9}]', "is JSON, not CSV: write a header with arrival_s, promptTokens"),
        (b"PAR1\0\0", "is a Parquet file: write it as CSV"),
        (b"PK\x03\x04\0", "is a zip archive or a spreadsheet: unpack it, or save the sheet as CSV"),
        (gzip.compress(PLAIN.encode(), mtime=0)[:-9], "is a damaged gzip file: "),
        (
            b"arrival_s\tpromptTokens\n",
            "1:1: columns must be separated by commas; these are by t",
        ),
        (
            b"arrival_s|promptTokens\n",
            "1:1: columns must be separated by commas; these are by b",
        ),
        (
            b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
            "1:1: is Azure's LLM inference trace: rename TIMESTAMP, a date, to arrival_s",
        ),
        (
            b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,x,4,1,5,a\n",
            "1:1: is BurstGPT's trace: rename Timestamp, in seconds, to arrival_s",
        ),
    ],
)
def test_what_the_file_is_instead_is_told_in_one_line(faults, data, said):
    """JSON lines were seven faults about columns called ``{"timestamp": 0``, and a public trace was
    told that its prompts are 'outputTokens'."""
    (line,) = faults(data)
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("unit", "stamp", "said"),
    [
        ("s", "1700000000", "counts from 1970: give the workload firstArrival: 0s"),
        ("ms", "1700000000000", "counts from 1970: give the workload firstArrival: 0s"),
        ("s", "1700000000000", "counts ms since 1970: name the column arrival_ms, and give"),
        ("s", "1700000000000000", "counts us since 1970: name the column arrival_us, and give"),
        ("us", "1.7e18", "counts ns since 1970: divide by 1000 for us, and give"),
        ("s", "2023-11-16 18:15:46.6805900", "is a date: write seconds, such as those since 1970"),
        ("s", "2023-11-16T18:15:46Z", "is a date: write seconds, such as those since 1970"),
    ],
)
def test_stamps_of_a_clock_or_a_calendar_say_what_to_do(faults, unit, stamp, said):
    """Each row was "must be a duration from 0 to 366d", and nothing told of firstArrival."""
    text = f"arrival_{unit},{REQUIRED}" + f"{stamp},9,9\n" * 3
    (line,) = faults(text)
    assert line.startswith(f"2:1: arrival_{unit}: {said}")


def test_stamps_of_any_clock_are_right_where_they_count_from_the_first(play, faults):
    """Milliseconds read as seconds would offer a thousandth of the load, without a word."""
    seconds = f"arrival_s,{REQUIRED}1700000000,9,9\n1700000001,9,9\n"
    assert play(seconds, firstArrival="0s").arrivals() == [0.0, 1.0]
    (line,) = faults(seconds.replace(",9,9", "000,9,9"), firstArrival="0s")
    assert "counts ms since 1970: name the column arrival_ms" in line
