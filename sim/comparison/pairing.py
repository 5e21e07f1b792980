"""Which runs face each other: variants by name, runs by seed, and only of one scenario."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sim.comparison.sides import Figures, Side, Unpaired

HASH_DIGITS: Final = 8
MOST_SETTINGS: Final = 3
"""How many differing settings are named; who needs all has the manifests."""
MOST_WORDS: Final = 40
"""Characters of a setting's value that are shown."""

ACROSS: Final = (
    "--across compares scenarios that differ, on your word that both have the same workload"
)

Runs: TypeAlias = tuple[tuple[Figures, Figures], ...]


@dataclass(frozen=True)
class Pair:
    """The runs of two variants under the seeds that both have, in ascending order of seeds.

    ``variant`` is what the two are called together. ``on_purpose`` says that
    they are known to be different scenarios. ``alone`` are the seeds that only
    the base has.
    """

    variant: str
    runs: Runs
    on_purpose: bool
    alone: tuple[int, ...] = ()


@dataclass(frozen=True)
class Paired:
    """What of two sides faces each other; what of the base does not; what is worth a remark."""

    pairs: tuple[Pair, ...]
    unpaired: tuple[Unpaired, ...]
    notes: tuple[str, ...]


def paired(base: Side, new: Side, across: bool = False) -> Paired:
    """Pair two sides: variants by name, or the only one of each side whatever they are called.

    Runs of one variant must have one variant hash, and variants of different
    names come from one scenario; ``across`` takes the user's word for it that
    the two share their workload. What of the base has nothing opposite is
    unpaired. What only ``new`` has is no more than a remark: nobody can say what
    it was before.
    """
    pairs: list[Pair] = []
    unpaired: list[Unpaired] = []
    notes: list[str] = []
    differ = False
    names = _names(base, new)
    for old, young in names:
        before, after = base.of(old), new.of(young)
        name = (
            old
            if old == young
            else " → ".join((called(old, base.scenario), called(young, new.scenario)))
        )
        runs = tuple((before[seed], after[seed]) for seed in sorted(before) if seed in after)
        if not after:
            reason = f"{new.label} has no such variant"
        elif not runs:
            reason = (
                f"no seed in common: {base.label} has {named_seeds(before)}, "
                f"{new.label} {named_seeds(after)}"
            )
        else:
            reason = "" if across else _not_comparable(base.label, new.label, runs, old == young)
            differ = differ or bool(reason)
        if reason:
            unpaired.append(Unpaired(name, reason))
        else:
            alone = tuple(seed for seed in sorted(before) if seed not in after)
            pairs.append(Pair(name, runs, across or old != young, alone))
            who = called(name, base.scenario)
            notes += _left_out(who, before, after, base.label, new.label)
    fresh = set(new.variants) - {young for _, young in names}
    notes += [
        f"{called(variant, new.scenario)} is only in {new.label}: nothing to compare it with"
        for variant in new.variants
        if variant in fresh
    ]
    notes += [ACROSS] if differ else []
    return Paired(tuple(pairs), tuple(unpaired), tuple(notes))


def called(variant: str, scenario: str) -> str:
    """What a reader is told of a variant; that of a scenario without variants goes by its name."""
    return variant or scenario


def named_seeds(seeds: Iterable[int]) -> str:
    """The seeds in words: each of a few, of many the first and the last."""
    each = list(seeds)
    if len(each) == 1:
        return f"seed {each[0]}"
    if len(each) > 4:
        return f"{len(each)} seeds from {min(each)} to {max(each)}"
    return f"seeds {', '.join(map(str, each))}"


def _names(base: Side, new: Side) -> list[tuple[str, str]]:
    """Each variant of the base with the one that it faces."""
    if len(base.variants) == len(new.variants) == 1:
        return [(base.variants[0], new.variants[0])]
    return [(variant, variant) for variant in base.variants]


def _not_comparable(base: str, new: str, runs: Runs, one_variant: bool) -> str:
    """Why the runs are not of one scenario; empty when they are."""
    for old, young in runs:
        if one_variant and old.variant_hash and young.variant_hash:
            ours, theirs = old.variant_hash, young.variant_hash
        else:
            ours, theirs = old.scenario_hash, young.scenario_hash
        if ours and ours == theirs:
            continue
        told = _settings_that_differ(old.settings, young.settings, base, new)
        hashes = f"{ours[:HASH_DIGITS] or 'unknown'} and {theirs[:HASH_DIGITS] or 'unknown'}"
        return f"not the same scenario (hashes {hashes}){told}"
    return ""


def _settings_that_differ(
    old: Mapping[str, Any], young: Mapping[str, Any], base: str, new: str
) -> str:
    if not old or not young:
        return ""
    ours, theirs = dict(_leaves(old)), dict(_leaves(young))
    differing = [key for key in dict.fromkeys((*ours, *theirs)) if _differs(key, ours, theirs)]
    if not differing:
        return "; the settings are alike, a file that they name is not"
    told = [
        f"{key} is {_short(ours, key)} in {base}, {_short(theirs, key)} in {new}"
        for key in differing[:MOST_SETTINGS]
    ]
    more = len(differing) - len(told)
    return "; " + "; ".join([*told, f"and {more} more"] if more else told)


def _differs(key: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return key not in ours or key not in theirs or bool(ours[key] != theirs[key])


def _short(leaves: Mapping[str, Any], key: str) -> str:
    if key not in leaves:
        return "not set"
    text = str(leaves[key])
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 1]}…"


def _leaves(settings: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value of nested settings with its path; lists are single values."""
    if isinstance(settings, Mapping) and settings:
        for key, value in settings.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, settings


def _left_out(
    name: str, before: Mapping[int, Figures], after: Mapping[int, Figures], base: str, new: str
) -> list[str]:
    """A remark for seeds that only one side has."""
    return [
        f"{name}: {named_seeds(alone)} only in {label}"
        for label, alone in (
            (base, [seed for seed in sorted(before) if seed not in after]),
            (new, [seed for seed in sorted(after) if seed not in before]),
        )
        if alone
    ]
