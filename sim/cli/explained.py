"""The text that ``podsim explain`` prints, from the documents of ``sim.explain.report``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sim.cli.explained_request import LEAST_S, Document, block, tokens
from sim.core.text import aligned, side_by_side, wrapped
from sim.explain.kinds import BEFORE, BESIDE, PARTS, QUEUE
from sim.explain.report import total

SHORT: Final = (
    ("before", BEFORE),
    ("hold", ("hold_s",)),
    ("front end", ("front_end_s",)),
    ("queue", QUEUE),
    ("thrown out", ("preempted_s",)),
    ("prefill", ("prefill_s",)),
    ("others", BESIDE),
    ("rest", ("service_unsplit_s",)),
)
"""The columns of the table of the slowest, and the parts that each of them adds up."""


def overview(documents: Sequence[Document], folders: Mapping[str, str]) -> str:
    """Runs side by side, their slowest requests one below the other, the longest TTFT first.

    ``folders`` are those of the runs by variant, as a command line has them.
    """
    stories = sorted(_stories(documents), key=lambda story: -story["ttft_s"])
    lines = [*_heading(documents), ""]
    for key, title in (("all", "mean over all"), ("slowest_5_percent", "mean over slowest 5 %")):
        if stories or key == "all":
            lines += [*_means(documents, key, title), ""]
    several = len(documents) > 1
    if stories:
        lines += [*_slowest(stories, several), ""]
        lines += [*_conclusion(stories), *_legend(stories)]
        slowest = f"{folders[stories[0]['variant']]} {stories[0]['request_id']}"
        lines.append(f"All about one of them: podsim explain {slowest}")
    else:
        lines.append("No request of this window has a first token.")
    lines += _cautions(documents)
    return "\n".join(lines).rstrip()


def one_by_one(documents: Sequence[Document]) -> str:
    """A block for each request."""
    blocks = ["\n".join(block(story)) for story in _stories(documents)]
    return "\n\n".join([*blocks, *_cautions(documents)])


def _stories(documents: Sequence[Document]) -> list[Document]:
    return [story for document in documents for story in document["requests"]]


def _heading(documents: Sequence[Document]) -> list[str]:
    first = documents[0]
    ends = first["window_end_s"]
    until = "the end" if ends is None else f"{ends:,g} s"
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(each["seed"] for each in documents))
    return [
        f"{first['scenario']}, seed {seeds}: where the time to the first token went",
        f"Requests that arrived from {first['window_start_s']:,g} s to {until}.",
    ]


def _means(documents: Sequence[Document], key: str, title: str) -> list[str]:
    """The parts that any of the runs has, in a column for each run."""
    groups = [document[key] for document in documents]
    parts = [
        part
        for part in PARTS
        if any((group["parts_s"] or {}).get(part.name, 0.0) >= LEAST_S for group in groups)
    ]
    missed = any((group["missed_s"] or 0.0) >= LEAST_S for group in groups)
    labels = [f"{title}, s", "TTFT"]
    for part in parts:
        labels.append(f"  {part.label}")
        if missed and part.name == "prefill_s":
            labels.append("    of tokens another pod had")
    labels += ["requests", "without a first token"] if key == "all" else ["requests"]
    columns = []
    for document, group in zip(documents, groups):
        column = [document["variant"] or document["scenario"], _seconds(group["ttft_s"])]
        for part in parts:
            column.append(_seconds((group["parts_s"] or {}).get(part.name)))
            if missed and part.name == "prefill_s":
                column.append(_seconds(group["missed_s"]))
        column.append(f"{group['requests']:,}")
        if key == "all":
            column.append(f"{document['without_first_token']:,}")
        columns.append(column)
    return side_by_side(labels, columns)


def _slowest(stories: Sequence[Document], several: bool) -> list[str]:
    """One row per request, the longest TTFT first, and their sum."""
    short = _short(stories)
    elsewhere = _any_elsewhere(stories)
    names = [*(label for label, _ in short), "cached", *["elsewhere"] * elsewhere]
    rows = [["slowest, s", "TTFT", *names, "decision", *["run"] * several]]
    rows += [
        [
            str(story["request_id"]),
            _seconds(story["ttft_s"]),
            *(_seconds(_sum(story, names)) for _, names in short),
            _of(story["cached_tokens"], story["prompt_tokens"]),
            *[tokens(story["cache"]["held_elsewhere_tokens"])] * elsewhere,
            _decision(story),
            *[story["variant"]] * several,
        ]
        for story in stories
    ]
    added = total(list(stories))
    sums = [_seconds(_sum(added, names)) for _, names in short]
    rows.append(["sum", _seconds(added["total_s"]), *sums])
    return aligned(rows, numbers=range(1, rows[0].index("decision")))


def _short(stories: Sequence[Document]) -> list[tuple[str, tuple[str, ...]]]:
    """The columns that any of the requests has something in."""
    return [
        (label, names)
        for label, names in SHORT
        if any(_sum(story, names) >= LEAST_S for story in stories)
    ]


def _any_elsewhere(stories: Sequence[Document]) -> bool:
    return any(story["cache"]["held_elsewhere_tokens"] is not None for story in stories)


def _legend(stories: Sequence[Document]) -> list[str]:
    """What the columns are that their names do not say."""
    labels = {label for label, _ in _short(stories)}
    said = []
    if "before" in labels:
        said.append("before: earlier tries, waits between them, backends that failed")
    if "others" in labels:
        said.append("others: longer steps for prompts and decodes of others, steps without it")
    said.append("cached: of its prompt, on its pod, when admitted")
    if _any_elsewhere(stories):
        said.append("elsewhere: what the other pod held that held most, when it was sent")
    return wrapped("; ".join(said))


def _conclusion(stories: Sequence[Document]) -> list[str]:
    """What the slowest have in common, in a sentence."""
    added = total(list(stories))
    if not added["total_s"]:
        return []
    shares = {part.label: added["parts_s"][part.name] / added["total_s"] for part in PARTS}
    largest = sorted(shares, key=lambda label: -shares[label])[:2]
    said = " and ".join(
        f"{shares[each] * 100:.0f} % {each}" for each in largest if shares[each] >= 0.005
    )
    text = f"Of the TTFT of these {len(stories)}: {said}."
    missed = added["missed_s"] / added["total_s"]
    if missed >= 0.005:
        text += f" {missed * 100:.0f} % is prefill of tokens that another pod had."
    return wrapped(text)


def _cautions(documents: Sequence[Document]) -> list[str]:
    """What could not be told of which runs."""
    return [
        line
        for document in documents
        if document["why_not"]
        for line in wrapped(
            f"note: {_run(document)}: only what its tables tell, since {document['why_not']}"
        )
    ]


def _run(document: Document) -> str:
    return f"{document['variant'] or document['scenario']}, seed {document['seed']}"


# -- cells ----------------------------------------------------------------------------------


def _sum(story: Document, names: Iterable[str]) -> float:
    return float(sum(story["parts_s"][name] for name in names))


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _of(part: int | None, whole: int) -> str:
    return f"{tokens(part)} of {whole:,}"


def _decision(story: Document) -> str:
    if story["outcome"] is None:
        return "not placed"
    placed = story["decisions"][-1]
    reason = f" ({placed['reason']})" if placed["reason"] else ""
    return f"{placed['outcome']}{reason} {story['pod']}"
