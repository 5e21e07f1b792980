"""The Trace Event Format, which ui.perfetto.dev and chrome://tracing open: JSON, one event a line.

What the viewers ask for (Google's "Trace Event Format", Perfetto's JSON
importer): times in microseconds; slices of one track nest, they never overlap;
of slices that begin at one instant the outer stands first; thread ids are
unique in the whole file, since a thread is named by its id alone; an arrow is
a ``bind_id`` that one slice sends out and later ones take in.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

FIRST_THREAD: Final = 1_000_000
"""Above every process id: a thread with the id of its process would be its main thread."""

Ends: TypeAlias = Literal["out", "through", "in"]
Interval: TypeAlias = tuple[int, int]
"""From and to, in whole microseconds."""


class Track(NamedTuple):
    """Where slices are drawn: a thread of a process."""

    process: int
    thread: int


class Flow(NamedTuple):
    """An arrow with the number ``id`` leaves a slice, passes through it, or ends at it."""

    id: int
    ends: Ends


class Trace:
    """Collects processes, tracks and events; ``rendered`` is the file."""

    def __init__(self) -> None:
        self._names: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._processes = 0
        self._threads = 0

    @property
    def events(self) -> int:
        """How many events there are, the names of tracks included."""
        return len(self._names) + len(self._events)

    def process(self, name: str, last: bool = False) -> int:
        """Begin a group of tracks; shown in the order of these calls, ``last`` ones below.

        Arrows lead from earlier to later groups where both ends are at one instant.
        """
        self._processes += 1
        rank = self._processes + last * FIRST_THREAD
        self._name("process_name", {"pid": self._processes}, {"name": name})
        self._name("process_sort_index", {"pid": self._processes}, {"sort_index": rank})
        return self._processes

    def track(self, process: int, name: str) -> Track:
        """Begin a track of a process."""
        self._threads += 1
        track = Track(process, FIRST_THREAD + self._threads)
        self._name("thread_name", _place(track), {"name": name})
        return track

    def slice(
        self,
        track: Track,
        name: str,
        interval: Interval,
        args: Mapping[str, Any] | None = None,
        flow: Flow | None = None,
    ) -> None:
        """Add something that lasts; it must nest with the other slices of its track."""
        start_us, end_us = interval
        event = {"ph": "X", "name": name, **_place(track), "dur": end_us - start_us}
        if flow is not None:
            event["bind_id"] = hex(flow.id + 1)  # number 0 would be no arrow to the viewers
            event |= {"flow_in": True} if flow.ends != "out" else {}
            event |= {"flow_out": True} if flow.ends != "in" else {}
        self._add(event, start_us, args)

    def instant(self, track: Track, name: str, at_us: int) -> None:
        """Add something that happens at once."""
        self._add({"ph": "i", "s": "t", "name": name, **_place(track)}, at_us)

    def counter(self, process: int, name: str, at_us: int, values: Mapping[str, float]) -> None:
        """Add values that hold from here on."""
        self._add({"ph": "C", "name": name, "pid": process}, at_us, values)

    def rendered(self, about: Mapping[str, Any]) -> str:
        """Return the file: equal calls, equal text. Viewers show ``about`` of the whole."""
        ordered = sorted(
            self._events, key=lambda event: (event["ts"], event["pid"], -event.get("dur", 0))
        )
        events = ",\n".join(_json(event) for event in (*self._names, *ordered))
        return (
            f'{{"displayTimeUnit":"ms","otherData":{_json(about)},"traceEvents":[\n{events}\n]}}\n'
        )

    def _name(self, what: str, where: Mapping[str, int], args: Mapping[str, Any]) -> None:
        self._names.append({"ph": "M", "name": what, **where, "args": args})

    def _add(
        self, event: dict[str, Any], at_us: int, args: Mapping[str, Any] | None = None
    ) -> None:
        event["ts"] = at_us
        if args:
            event["args"] = dict(args)
        self._events.append(event)


class Lanes:
    """As many tracks of one name as are needed for slices that overlap; fed in order of start."""

    def __init__(self, trace: Trace, process: int, name: str) -> None:
        self._trace = trace
        self._process = process
        self._name = name
        self._tracks: list[Track] = []
        self._free_from_us: list[int] = []

    def track(self, interval: Interval) -> Track:
        """Return the first track that is free for a slice."""
        for index, free_us in enumerate(self._free_from_us):
            if free_us <= interval[0]:
                self._free_from_us[index] = interval[1]
                return self._tracks[index]
        number = len(self._tracks) + 1
        name = self._name if number == 1 else f"{self._name} {number}"
        self._tracks.append(self._trace.track(self._process, name))
        self._free_from_us.append(interval[1])
        return self._tracks[-1]


def _place(track: Track) -> dict[str, int]:
    return {"pid": track.process, "tid": track.thread}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
