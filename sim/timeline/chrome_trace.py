"""The Trace Event Format, which ui.perfetto.dev and chrome://tracing open: JSON, one event a line.

What the viewers ask for (Google's "Trace Event Format", Perfetto's JSON
importer): times in microseconds; slices of one track nest, they never overlap;
of slices that begin at one instant the outer stands first; thread ids are
unique in the whole file, since a thread is named by its id alone; an arrow is
a ``bind_id`` that one slice sends out and later ones take in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

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
