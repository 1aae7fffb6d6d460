"""From options to what is asked: model, clusters, counts, workload, runtimes; all faults told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from planner.calibrate.releases import named_runtime
from planner.errors import nearest
from planner.files import is_plan_file
from planner.inputs.hardware import HardwareProfile
from planner.inputs.lengths import longest
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.question.formats import check_precision, in_a_format_of
from planner.question.meant import meant
from planner.question.reading import Reading, Span, shown
from planner.question.traits import check_settings, trait_changes
from planner.question.usual import runtimes_for
from planner.question.values import read_value, read_values
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from planner.runtimes.libraries import library_named
from planner.runtimes.libraries.family import HOSTS
from planner.techniques.methods import METHODS

WORKLOAD: Final = (
    "seq_len", "precision", "optimizer", "method", "lora_rank", "lora_targets", "document_tokens",
    "seq_lens", "max_tokens_per_rank", "images", "freeze_encoder", "train_projector", "imbalance", "tokens",
    "state_dtype", "master_dtype", "gradient_dtype",
)  # fmt: skip
"""Fields of a job that are those of its workload, but for the batch."""

ABOUT_ENCODER: Final = ("images", "freeze_encoder", "train_projector")
"""Of these, those of a model with an encoder."""

Said = Mapping[str, Any]
"""Fields by name, each as a text or in its own type; None, or left out, where nobody says."""

MOST_SEQUENCES: Final = 10**6
PLAIN_TOKENS: Final = 2**24
"""Tokens of a step up to which the usual number of sequences is taken where nobody says: Llama 3's largest.

References
----------
.. [1] A. Dubey et al., "The Llama 3 Herd of Models," arXiv:2407.21783, 2024, sec. 3.4.1.
"""

MOST_TOKENS: Final = 5 * 10**8
"""Tokens of a step beyond which a batch is taken for a slip: four times the largest published (128 M tokens,
MiniMax-01, arXiv:2501.08313)."""

MOST_COUNTS: Final = 48
"""Counts of accelerators that a range is searched for; of more, those with few prime factors are taken."""


Clusters = tuple[tuple[str, HardwareProfile], ...]
"""How the user named each cluster, and the cluster."""


class Files(NamedTuple):
    """How models and clusters are loaded: anew each time, unless a caller keeps what it has loaded."""

    model: Callable[[str], ModelSpec] = load_model
    cluster: Callable[[str, str], HardwareProfile] = load_hardware


FILES: Final = Files()


class JobAsked(NamedTuple):
    """What is planned, as `planner.question.question.Question` has it."""

    model: ModelSpec
    clusters: Clusters
    gpu_counts: tuple[int, ...] | None
    workload: Workload
    runtimes: tuple[Runtime, ...]
    memory_limit: float | None
    defaults: dict[str, Any]


def read_job(
    given: Mapping[str, Any], reading: Reading, files: Files = FILES, several: bool = True
) -> JobAsked | None:
    """Return what is asked, or None where a fault was noted; ``several`` allows a list of accelerators."""
    defaults: dict[str, Any] = {}
    said = meant(given, reading, files.cluster)
    if is_plan_file(Path(said["model"])) and said["model"] != "-":
        others = "`planner explain`, `simulate`, `compare`, `report` or `emit`"
        reading.fault("model", shown(said["model"]), f"a model; this is a plan, for {others}")
        return None
    model = reading.attempt(files.model, said["model"])
    clusters = _clusters(said, reading, files)
    workload = _workload(said, model, reading, defaults)
    if workload is not None and said.get("precision") is None:
        workload = in_a_format_of([profile for _, profile in clusters], workload, defaults)
    chosen = _runtimes(said, model, workload, clusters, reading, defaults)
    limit = read_value("memory_limit", said.get("memory_limit"), reading)
    spans = reading.counts("gpus", said.get("gpus"), several)
    counts = _gpu_counts(said.get("gpus") is not None, spans, clusters, reading, defaults)
    for _, profile in clusters:
        check_precision(profile, workload, reading)
    if reading.problems or model is None or workload is None:
        return None
    return JobAsked(model, clusters, counts, workload, chosen, limit, defaults)


def _clusters(said: Said, reading: Reading, files: Files) -> tuple[tuple[str, HardwareProfile], ...]:
    if not said.get("hardware"):
        reading.fault("hardware", "nothing", "a cluster, such as dgx-h100 (see `planner hardware list`)")
    per_node = reading.count("gpus_per_node", said.get("gpus_per_node"), most=1024)
    found = []
    for text in dict.fromkeys(said.get("hardware") or ()):
        if "," in text and not Path(text).exists():
            _one_at_a_time("hardware", "cluster", text, reading)
            continue
        profile = reading.attempt(files.cluster, text, "cluster")
        if profile is not None and per_node is not None:
            profile = reading.attempt(profile.with_node_size, per_node)
        if profile is not None:
            found.append((text, profile))
    return _at_own_prices(tuple(found), said.get("price") or (), reading)


def _one_at_a_time(name: str, noun: str, text: str, reading: Reading) -> None:
    """Refuse several values in one, and say how they are given."""
    each = " ".join(reading.door.said(name, one.strip()) for one in text.split(","))
    reading.fault(name, shown(text), f"one {noun}", each)


def _at_own_prices(
    clusters: tuple[tuple[str, HardwareProfile], ...], prices: Iterable[str], reading: Reading
) -> tuple[tuple[str, HardwareProfile], ...]:
    """Return clusters at the prices that the user gives; one for a cluster comes before one for all."""
    own: dict[str, float] = {}
    for text in prices:
        number, _, name = text.partition("=")
        value = reading.number("price", number.strip(), 0.0)
        known = {
            spelled.lower(): given for given, one in clusters for spelled in (given, one.name, *one.aliases)
        }
        given = known.get(name.strip().lower(), "") if name else ""
        if "=" in text and not given and clusters:
            names = ", ".join(given for given, _ in clusters)
            reading.fault("price", shown(text), f"a cluster of --hardware: {names}", nearest(name, known))
        elif given in own:
            reading.fault("price", shown(text), f"one price for {given or 'all clusters'}")
        elif value is not None:
            own[given] = value
    found = ((given, one, own.get(given, own.get(""))) for given, one in clusters)
    return tuple((given, one if price is None else one.with_price(price)) for given, one, price in found)


def _plain_workload(model: ModelSpec | None, method: str | None, given: int | None) -> Workload:
    """Return what is taken where nothing is given: no more tokens than a model has positions.

    Of sequences longer than usual a step has half as many, and half again, until it has no more tokens than
    the largest of steps (`PLAIN_TOKENS`).
    """
    plain = Workload()
    positions = model.max_positions if model is not None else None
    batch = METHODS[method or plain.method].global_batch
    seq_len = min(plain.seq_len, positions or plain.seq_len)
    while batch > 1 and batch * (given or seq_len) > PLAIN_TOKENS:
        batch //= 2
    return plain.model_copy(update={"seq_len": seq_len, "global_batch": batch})


def _workload(
    said: Said, model: ModelSpec | None, reading: Reading, defaults: dict[str, Any]
) -> Workload | None:
    given = read_values(WORKLOAD, said, reading)
    for name in ("lora_rank", "lora_targets"):
        if given[name] is not None and (given["method"] or "full") == "full":
            lora = " or ".join(reading.door.said("method", name) for name in ("lora", "qlora"))
            reading.fault(name, f"no adapters with {reading.door.said('method', 'full')}", lora)
    seeing = model is not None and model.encoder is not None
    for name in () if seeing or model is None else ABOUT_ENCODER:
        if given[name]:
            reading.fault(name, "a model without an encoder", "a model with one, such as qwen2.5-vl-7b")
    if seeing and given["train_projector"] and not given["freeze_encoder"]:
        found, frozen = "an encoder that is trained, its projectors too", reading.door.place("freeze_encoder")
        reading.fault("train_projector", found, frozen)
    if given["seq_lens"] is not None and given["seq_len"] is None and not reading.problems:
        defaults["seq_len"] = given["seq_len"] = longest(given["seq_lens"])
    plain = _plain_workload(model, given["method"], given["seq_len"])
    seq_len = given["seq_len"] or plain.seq_len
    _check_lengths(given, seq_len, reading)
    if (given["document_tokens"] or 0) > seq_len:
        found, most = f"{given['document_tokens']} tokens", f"at most the {seq_len} of a sequence"
        reading.fault("document_tokens", found, most, str(seq_len))
    given["global_batch"] = _global_batch(said, seq_len, reading)
    if reading.problems:
        return None
    silent = (
        {
            "tokens",
            "state_dtype",
            "master_dtype",
            "gradient_dtype",
            "lora_targets",
            "document_tokens",
            "seq_lens",
            "max_tokens_per_rank",
        }
        | (set() if seeing else set(ABOUT_ENCODER))
        | (set() if given["freeze_encoder"] else {"train_projector"})
        | ({"lora_rank"} if (given["method"] or "full") == "full" else set())
    )
    defaults |= {
        name: getattr(plain, name) for name, value in given.items() if value is None and name not in silent
    }
    return plain.model_copy(update={name: value for name, value in given.items() if value is not None})


def _check_lengths(given: Mapping[str, Any], seq_len: int, reading: Reading) -> None:
    """Note what unequal lengths exclude, and a limit of tokens without them."""
    if given["seq_lens"] is not None and given["document_tokens"] is not None:
        one = reading.place("document_tokens")
        reading.fault("seq_lens", f"a second length of documents beside {one}", "one of the two")
    limit = given["max_tokens_per_rank"]
    if limit is not None and given["seq_lens"] is None:
        reading.fault(
            "max_tokens_per_rank", "no unequal lengths", reading.door.said("seq_lens", "lengths.csv")
        )
    elif limit is not None and limit > seq_len:
        most = f"at most the {seq_len} tokens of a sequence"
        reading.fault("max_tokens_per_rank", f"{limit} tokens", most, str(seq_len))


def _global_batch(said: Said, seq_len: int, reading: Reading) -> int | None:
    """Return the sequences of a step, given as such or in tokens."""
    sequences: int | None = read_value("global_batch", said.get("global_batch"), reading)
    tokens: float | None = read_value("global_batch_tokens", said.get("global_batch_tokens"), reading)
    if sequences is not None and tokens is not None:
        reading.fault(
            "global_batch_tokens", f"a second batch beside {reading.place('global_batch')}", "one of the two"
        )
    elif tokens is not None:
        if tokens % seq_len:
            low = max(1, int(tokens // seq_len)) * seq_len
            expected = f"a multiple of the {seq_len} tokens of a sequence"
            reading.fault("global_batch_tokens", f"{tokens:.0f}", expected, f"{low} or {low + seq_len}")
        else:
            sequences = int(tokens // seq_len)
        place, written = "global_batch_tokens", f"{tokens:.0f}"
    if tokens is None:
        place, written = "global_batch", f"{sequences} sequences of {seq_len} tokens"
    if sequences is not None and (sequences > MOST_SEQUENCES or sequences * seq_len > MOST_TOKENS):
        near = reading.door.said("global_batch_tokens", sequences) if tokens is None else ""
        expected = f"at most {MOST_SEQUENCES:,} sequences and {MOST_TOKENS:,} tokens in a step"
        reading.fault(place, written, expected, near)
    return sequences


def _runtimes(
    said: Said,
    model: ModelSpec | None,
    workload: Workload | None,
    clusters: Clusters,
    reading: Reading,
    defaults: dict[str, Any],
) -> tuple[Runtime, ...]:
    """Return the runtimes that are asked for, or else the usual one, or all where it does not train so."""
    usual: tuple[str, ...] = ()
    if not said.get("runtime"):
        usual = runtimes_for(model, workload, clusters[0][1] if clusters else None)
        defaults["runtime"] = ", ".join(usual)
    texts = [with_version(text, said.get("target_version"), reading) for text in said.get("runtime") or usual]
    found = [_named_runtime(text, workload, clusters, reading) for text in texts]
    chosen = {(runtime.name, runtime.release): runtime for runtime in found if runtime is not None}
    silent = [runtime for text, runtime in zip(texts, found, strict=True) if runtime and "@" not in text]
    if silent:
        named = said.get("runtime") and len(silent) > 1
        words = (f"{runtime.name} {runtime.release}" if named else runtime.release for runtime in silent)
        defaults["release"] = ", ".join(dict.fromkeys(words))
    changes = trait_changes(said.get("changes") or (), reading)
    check_settings(said.get("changes") or (), chosen.values(), reading)
    return tuple(runtime.with_traits(**changes) for runtime in chosen.values())


def with_version(text: str, version: str | None, reading: Reading) -> str:
    """Return ``NAME@RELEASE`` from a name and ``--target-version``, which may not name another release."""
    name, at, release = text.partition("@")
    if version is None or (at and release.strip() == version.strip()):
        return text
    if at:
        reading.fault("target_version", shown(version), f"one release beside --runtime {text}", release)
    return f"{name}@{version}"


def _named_runtime(
    text: str, workload: Workload | None, clusters: Clusters, reading: Reading
) -> Runtime | None:
    """Return a runtime in its release, which must run alike on all clusters."""
    if "," in text:
        _one_at_a_time("runtime", "runtime", text, reading)
        return None
    if _told_as_library(text, reading):
        return None
    precision = workload.precision if workload is not None else "bf16"
    devices = list(dict.fromkeys(profile.pool.accelerator.name for _, profile in clusters)) or [""]
    found = {name: reading.attempt(named_runtime, text, name, precision) for name in devices[:1]}
    first = found[devices[0]]
    for name in devices[1:]:
        other = reading.attempt(named_runtime, text, name, precision) if first is not None else None
        if first is not None and other is not None and other.traits != first.traits:
            said = f"a release that runs alike on {devices[0]} and {name}, or one of these clusters at a time"
            reading.fault("runtime", shown(text), said)
    return first


def _told_as_library(text: str, reading: Reading) -> bool:
    """Note that a name is that of a library, whose files are a target; return whether it is."""
    if text.partition("@")[0].strip().lower() in runtimes():
        return False
    library = library_named(text)
    if library is not None:
        under = f"a runtime under {library.title}, whose files are a target"
        reading.fault("runtime", shown(text), under, f"{HOSTS[0]} with --target {library.name}")
    return library is not None


def _gpu_counts(
    given: bool,
    spans: tuple[Span, ...] | None,
    clusters: tuple[tuple[str, HardwareProfile], ...],
    reading: Reading,
    defaults: dict[str, Any],
) -> tuple[int, ...] | None:
    """Return the counts to price, rising: of a range those that fill nodes and that all clusters can have."""
    if not given:
        sizes = {profile.pool.gpus for _, profile in clusters}
        size = sizes.pop() if len(sizes) == 1 else None
        if size is not None:
            defaults["gpus"] = size
        return (size,) if size is not None else None
    if spans is None or not clusters:
        return None
    _check_most(max(low for low, _ in spans), clusters, reading)
    most = int(min(1e9, *(profile.pool.max_gpus for _, profile in clusters)))
    node = min(profile.pool.gpus_per_node for _, profile in clusters)
    found = {count for low, high in spans for count in range_counts(low, min(high, max(low, most)), node)}
    counts = tuple(sorted(found))
    if len(counts) > 1:
        defaults["gpus"] = ", ".join(map(str, counts))
    return counts


def _check_most(count: int, clusters: tuple[tuple[str, HardwareProfile], ...], reading: Reading) -> None:
    """Note more accelerators than a cluster can have."""
    for _, profile in clusters:
        most = profile.pool.max_gpus
        if count > most:
            holder = "the first pool of " if len(profile.pools) > 1 else ""
            expected = f"at most {most:.0f}, since {holder}{profile.name} has no more"
            reading.fault("gpus", str(count), expected, f"{most:.0f}")
            return


def range_counts(low: int, high: int, node: int) -> tuple[int, ...]:
    """Return the counts of a range that fill nodes, few enough to search, its ends among them where they do.

    Examples
    --------
    >>> range_counts(8, 32, 8), range_counts(2, 16, 8), range_counts(12, 12, 8)
    ((8, 16, 24, 32), (2, 4, 8, 16), (12,))
    """
    if low == high:
        return (low,)
    parts = [n for n in range(low, min(high, node) + 1) if node % n == 0 and n < node]
    first = -(-low // node) * node
    for largest in (high, 7, 5, 3, 2):
        whole = [n for n in range(first, high + 1, node) if _smooth(n // node, largest)]
        if len(whole) <= MOST_COUNTS:
            break
    return tuple(parts + whole) or tuple(range(low, high + 1))


def _smooth(number: int, largest: int) -> bool:
    """Whether no prime factor of ``number`` exceeds ``largest``."""
    for prime in (2, 3, 5, 7):
        while prime <= largest and number % prime == 0 and number > 1:
            number //= prime
    return number == 1 or largest > 7
