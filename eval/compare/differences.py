"""What differs between runs in their configurations, their data, and where they were trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eval.compare.compared_run import ComparedRun
from mmt.data.cache.manifest import Manifest
from mmt.data.mixing import is_monolingual
from mmt.system.environment import Environment

# Bindings that say where files are, not how a run is trained.
_PLACES = ("MODEL_DIR",)


@dataclass(frozen=True)
class Property:
    """Something that runs have: its name, and its value in each run, None where there is none."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """Returns whether two runs have different values."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Differences:
    """The properties that differ. equal: the number of the others."""

    different: tuple[Property, ...]
    equal: int

    @classmethod
    def of(cls, properties: Sequence[Property]) -> "Differences":
        """Returns the differences among some properties. Those that no run has do not count."""
        known = [each for each in properties if any(value is not None for value in each.values)]
        different = tuple(each for each in known if each.differs)
        return cls(different, len(known) - len(different))


def configuration(runs: Sequence[ComparedRun]) -> Differences:
    """Returns the bindings that differ, by name; their values are as in the files.

    Two bindings are equal if they are written alike, or give the same value. So a macro that
    differs is one row, and the bindings that refer to it are none. MODEL_DIR is omitted.
    """
    names = sorted(set().union(*(run.bindings for run in runs)) - set(_PLACES))
    different, equal = [], 0
    for name in names:
        bindings = [run.bindings.get(name) for run in runs]
        texts = tuple(binding.text if binding else None for binding in bindings)
        values = {binding.value if binding else None for binding in bindings}
        if len(set(texts)) > 1 and len(values) > 1:
            different.append(Property(name, texts))
        else:
            equal += 1
    return Differences(tuple(different), equal)


def data(runs: Sequence[ComparedRun]) -> Differences:
    """Returns what differs in the training data, by the manifests."""
    manifests = [run.manifest for run in runs]

    def of(name: str, value: Callable[[Manifest], str | None]) -> Property:
        return Property(name, tuple(each and value(each) or None for each in manifests))

    properties = [
        of("mixture", lambda manifest: manifest.name),
        of("target", lambda manifest: manifest.target),
        of("source", lambda manifest: manifest.source),
        of("corpus hash", lambda manifest: manifest.corpus_hash),
        of("source vocabulary", lambda manifest: _vocabulary(manifest, "source")),
        of("target vocabulary", lambda manifest: _vocabulary(manifest, "target")),
        of("languages", lambda manifest: f"{len(manifest.translated)}"),
        of("training pairs", lambda manifest: f"{sum(_pairs(manifest).values()):,}"),
    ]
    return Differences.of(properties)


def languages(runs: Sequence[ComparedRun]) -> Differences:
    """Returns the languages whose training pairs differ; None where a run lacks the language."""
    counts = [_pairs(run.manifest) if run.manifest else {} for run in runs]
    codes = sorted(set().union(*counts))
    return Differences.of(
        [
            Property(code, tuple(f"{by[code]:,}" if code in by else None for by in counts))
            for code in codes
        ]
    )


def machines(runs: Sequence[ComparedRun]) -> Differences:
    """Returns what differs in hardware and versions between the runs of which they are known."""
    recorded = [run.environment for run in runs]
    known = {run: environment for run, environment in enumerate(recorded) if environment}
    if len(known) < 2:
        return Differences((), 0)

    def of(name: str, value: Callable[[Environment], str | None]) -> Property:
        return Property(name, tuple(each and value(each) for each in recorded))

    def package(name: str) -> Property:
        return of(name, lambda environment: environment.versions.get(name))

    packages = sorted(set().union(*(environment.versions for environment in known.values())))
    properties = [
        of("device", lambda environment: environment.device),
        of("devices", lambda environment: f"{environment.devices:,}"),
        of("allocator", lambda environment: environment.tunables or "default"),
        *map(package, packages),
    ]
    different = tuple(
        each for each in properties if len({each.values[run] for run in known}) > 1
    )
    return Differences(different, len(properties) - len(different))


def _vocabulary(manifest: Manifest, side: str) -> str | None:
    digest, size = manifest.vocabulary_hash.get(side), manifest.vocabulary_size.get(side)
    return None if digest is None or size is None else f"{size:,} pieces, {digest}"


def _pairs(manifest: Manifest) -> dict[str, int]:
    """Returns training examples by language; monolingual text counts as one of its own."""
    pairs = manifest.counts.get("train", {})
    return {code: pairs.get(code, 0) for code in manifest.languages if not is_monolingual(code)} | {
        code: count for code, count in pairs.items() if is_monolingual(code)
    }
