"""Trace events as Chrome's and Perfetto's viewers read them, and the file that holds them."""

import gzip
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from sim.core.errors import UserError
from sim.results.unfinished import make_beside, make_file, write_whole
from sim.timeline.timeline import Excerpt, Timeline

FIRST_THREAD: Final = 1_000_000
"""Above every process id: a thread with the id of its process would be its main thread."""

Ends = Literal["out", "through", "in"]


class Track(NamedTuple):
    """Where slices are drawn: a thread of a process."""

    process: int
    thread: int


class Flow(NamedTuple):
    """An arrow with the number ``id`` leaves a slice, passes through it, or ends at it."""

    id: int
    ends: Ends


@dataclass(frozen=True, slots=True)
class _Event:
    """An event in the order of the file; ``fields`` are those that depend on its kind."""

    at_us: int
    process: int
    duration_us: int
    fields: dict[str, Any]

    @property
    def order(self) -> tuple[int, int, int]:
        return self.at_us, self.process, -self.duration_us


class Trace:
    """Collects processes, tracks and events; ``rendered`` is the file."""

    def __init__(self) -> None:
        self._names: list[dict[str, Any]] = []
        self._events: list[_Event] = []
        self._processes = 0
        self._threads = 0

    @property
    def events(self) -> int:
        """How many events there are, the names of tracks included."""
        return len(self._names) + len(self._events)

    def process(self, name: str, last: bool = False) -> int:
        """A group of tracks; shown in the order in which they are asked for, ``last`` ones below.

        Arrows lead from earlier to later groups where both ends are at one instant.
        """
        self._processes += 1
        process = {"pid": self._processes}
        rank = self._processes + last * FIRST_THREAD
        self._named("process_name", process, {"name": name})
        self._named("process_sort_index", process, {"sort_index": rank})
        return self._processes

    def track(self, process: int, name: str) -> Track:
        """A track of a process."""
        self._threads += 1
        track = Track(process, FIRST_THREAD + self._threads)
        self._named("thread_name", _place(track), {"name": name})
        return track

    def slice(
        self,
        track: Track,
        name: str,
        interval_us: tuple[int, int],
        args: Mapping[str, Any] | None = None,
        flow: Flow | None = None,
    ) -> None:
        """Something that lasts; it must nest with the other slices of its track."""
        start_us, end_us = interval_us
        fields = {"ph": "X", "name": name, **_place(track), "dur": end_us - start_us}
        if flow is not None:
            # Number 0 would be no arrow to the viewers.
            fields["bind_id"] = hex(flow.id + 1)
            fields |= {"flow_in": True} if flow.ends != "out" else {}
            fields |= {"flow_out": True} if flow.ends != "in" else {}
        self._add(start_us, track.process, end_us - start_us, fields, args)

    def instant(self, track: Track, name: str, at_us: int) -> None:
        """Something that happens at once."""
        self._add(at_us, track.process, 0, {"ph": "i", "s": "t", "name": name, **_place(track)})

    def counter(
        self, process: int, name: str, at_us: int, values: Mapping[str, int | float]
    ) -> None:
        """Values from here on."""
        self._add(at_us, process, 0, {"ph": "C", "name": name, "pid": process}, values)

    def rendered(self, about: Mapping[str, Any]) -> str:
        """The file: equal calls, equal text. ``about`` is what the viewers show of the whole."""
        ordered = sorted(self._events, key=lambda event: event.order)
        lines = [*self._names, *(event.fields for event in ordered)]
        events = ",\n".join(_json(line) for line in lines)
        return (
            f'{{"displayTimeUnit":"ms","otherData":{_json(about)},"traceEvents":[\n{events}\n]}}\n'
        )

    def _named(self, what: str, where: Mapping[str, int], args: Mapping[str, Any]) -> None:
        self._names.append({"ph": "M", "name": what, **where, "args": dict(args)})

    def _add(
        self,
        at_us: int,
        process: int,
        duration_us: int,
        fields: dict[str, Any],
        args: Mapping[str, Any] | None = None,
    ) -> None:
        fields["ts"] = at_us
        if args:
            fields["args"] = dict(args)
        self._events.append(_Event(at_us, process, duration_us, fields))


class Lanes:
    """As many tracks of one name as are needed for slices that overlap; fed in order of start."""

    def __init__(self, trace: Trace, process: int, name: str) -> None:
        self._trace = trace
        self._process = process
        self._name = name
        self._tracks: list[Track] = []
        self._free_from_us: list[int] = []

    def track(self, interval_us: tuple[int, int]) -> Track:
        """The first track that is free for a slice."""
        start_us, end_us = interval_us
        for index, free_us in enumerate(self._free_from_us):
            if free_us <= start_us:
                self._free_from_us[index] = end_us
                return self._tracks[index]
        number = len(self._tracks) + 1
        name = self._name if number == 1 else f"{self._name} {number}"
        self._tracks.append(self._trace.track(self._process, name))
        self._free_from_us.append(end_us)
        return self._tracks[-1]


def _place(track: Track) -> dict[str, int]:
    return {"pid": track.process, "tid": track.thread}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


GZIP: Final = ".gz"
COMPRESSION: Final = 6


@dataclass(frozen=True)
class Written:
    """A timeline that has been written: without its text, with the size of its file."""

    path: Path
    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None
    size_bytes: int


def path_of_run(path: Path, variant: str, seed: int) -> Path:
    """The file of one run among several: ``out-ring-seed-1.json`` for ``out.json``."""
    ending = path.suffix
    if ending == GZIP:
        ending = path.with_suffix("").suffix + GZIP
    stem = path.name.removesuffix(ending)
    return path.with_name("-".join(filter(None, (stem, variant, f"seed-{seed}"))) + ending)


def check_writable(path: Path) -> None:
    """Raise ``UserError`` unless a file could be written there now."""
    with _refused(path):
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write the timeline to {path}: it is not a file")
        make_beside(path, make_file).unlink()


def write(timeline: Timeline, path: Path) -> Written:
    """Write a timeline, compressed when the name ends in ``.gz``; replaces what is there.

    Raises ``UserError`` when the disk is full or the folder cannot be
    written; an older file stays then.
    """
    content = timeline.text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, COMPRESSION, mtime=0)  # equal runs, equal bytes
    with _refused(path):
        write_whole(path, content)
    return Written(
        path,
        timeline.excerpt,
        timeline.events,
        timeline.cut,
        timeline.swap_elsewhere_s,
        len(content),
    )


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Tell the user what the disk has refused."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write the timeline to {path}: {error.strerror}") from error
