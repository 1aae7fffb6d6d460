"""The network that a row's words mean: its kind, the ports of a node, and the rate of each.

People write what joins their nodes in many ways, from ``nvlink3 + 8x200Gb HDR IB`` to the list of cards of a
submission, ``Storage: 2x ConnectX-7 IB NDR 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s``. A text is read a
part at a time: links inside a node and cards for storage or management are passed over, and of the rest the
fastest counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from planner.dataclasses import dataclass, replace
from planner.units import GB, KB

NETWORK_WORDS: Final = (
    (re.compile(r"slingshot"), "slingshot-11"),
    (re.compile(r"omni.?path|\bopa\b"), "omni-path-100"),
    (re.compile(r"efa.?v?4"), "efa-v4"),
    (re.compile(r"efa.?v?3"), "efa-v3"),
    (re.compile(r"efa.?v?2"), "efa-v2"),
    (re.compile(r"efa.?v?1"), "efa-v1"),
    (re.compile(r"\befa|elastic fabric"), "efa"),
    (re.compile(r"tcpxo"), "gcp-tcpxo"),
    (re.compile(r"tcpx"), "gcp-tcpx"),
    (re.compile(r"spectrum.?x"), "spectrum-x"),
    (re.compile(r"ro-?ce|ultra ethernet"), "roce"),
    (re.compile(r"xdr|quantum-x800"), "infiniband-xdr"),
    (re.compile(r"ndr|quantum-2"), "infiniband-ndr"),
    (re.compile(r"hdr"), "infiniband-hdr"),
    (re.compile(r"edr"), "infiniband-edr"),
    (re.compile(r"infini-?band|\bib\b|\bibverbs|fdr"), "infiniband"),
    (re.compile(r"\btcp\b|socket"), "ethernet-tcp"),
    (re.compile(r"ethernet|\d\s*gbe\b"), "ethernet"),
)
"""Words of the column ``interconnect`` and the kind or family that each means, the most particular first."""

FAMILIES: Final = {"efa": "efa-v1", "infiniband": "infiniband-hdr", "ethernet": "ethernet-tcp"}
"""Families, whose kind the accelerator's clusters or the ports tell, and the kind where neither does."""

BY_RATE: Final = {
    100: "infiniband-edr",
    200: "infiniband-hdr",
    400: "infiniband-ndr",
    800: "infiniband-xdr",
}
"""Line rate of an InfiniBand port and its generation. [Gbit/s]"""

_GENERATIONS: Final = (
    (r"hdr-?100|edr", 100.0),
    (r"ndr-?200|hdr", 200.0),
    (r"ndr|quantum-2", 400.0),
    (r"xdr|quantum-x800", 800.0),
    (r"fdr", 56.0),
    (r"slingshot-?10", 100.0),
    (r"slingshot", 200.0),
    (r"omni.?path|\bopa\b", 100.0),
    (r"\bgig(abit)? ?ethernet|\b1\s*gbe", 1.0),
    (r"connect-?x-?6 ?lx", 25.0),
    (r"connect-?x-?6 ?dx|connect-?x-?5", 100.0),
    (r"(connect-?x|\bcx)-?8", 800.0),
    (r"(connect-?x|\bcx)-?7|bluefield-?3|\bbf-?3", 400.0),
    (r"(connect-?x|\bcx)-?6|bluefield-?2|\bbf-?2", 200.0),
)
"""Words for a generation of ports or a card, and the line rate of one, the most particular first. [Gbit/s]"""

_SINGLE: Final = re.compile(r"omni.?path|\bopa\b|\bgig(abit)? ?ethernet|\b1\s*gbe")
"""Ports of which a node has one where their number is not said; of others, as many as its usual node."""

_RATE: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*-?\s*(?:([gtGT])(?:b|B(?=/|[pP][sS]|it))(?:its?)?(?:[pP][sS]|/[sS](?:ec)?|E|e)?(?![a-zA-Z])"
    r"|([gtGT])(?![a-zA-Z/]))"
)
_BYTES: Final = re.compile(r"[gtGT]B(?!it|E\b)")
_COUNT: Final = re.compile(r"(?:^|[^\w.])(\d+)\s*[x×]")
_COUNTED: Final = re.compile(
    r"(?:^|[^\w.])(\d+)\s*(?:nics?|hcas?|ports?|rails?|cards?|adapters?|links?)\b|\s[x×]\s?(\d+)\b"
)
_CARDS: Final = re.compile(
    r"connect-?x|\bcx-?\d|bluefield|\bbf-?[23]\b|\bdpu|mellanox|\bnics?\b|\bhcas?\b|rdma|broadcom|thor|pollara|\bena\b"
)
_EACH: Final = re.compile(r"(\b(per|each|a|every)|/)\s*-?(gpu|accelerator|device|chip|die)\b")
_WHOLE: Final = re.compile(
    r"(\b(per|each|a|every)|/)\s*-?(node|host|server|machine|instance|vm)\b|between nodes"
    r"|node[- ](to[- ])?node"
    r"|inter-?node|total|aggregate|in all"
)
_INSIDE: Final = re.compile(
    r"nv-?link|nv-?switch|\bnvl\d*\b|xgmi|infinity|pci-?e|\bici\b|\bin[- ](host|node|box)|intra|scale-?up"
    r"|cube mesh|hccs|neuron-?link|xe-?link|single[- ]node|one node|no network"
)
_USUAL: Final = re.compile(
    r"\bdgx|\bhgx|\bhls\b|reference|superpod|not (said|stated|known)|unknown|unspecified|default|usual"
    r"|simulator"
)
_COMPUTE: Final = re.compile(
    r"comput|back-?end|scale-?out|inter-?node|\bgpu|rdma|fabric|training|network|interconnect"
)
_OTHER: Final = re.compile(
    r"storage|manage|mgmt|front-?end|\bbmc\b|\boob\b|out-of-band|in-band|service|\bhost\b"
)
_LABEL: Final = re.compile(r"\s*([A-Za-z][A-Za-z&+/ \-]*?)\s*:\s*(.*)")
_PARTS: Final = re.compile(r"[;,|\n]|\s[+/&]\s|\sand\s")


@dataclass(frozen=True)
class Stated:
    """What words say of a network."""

    network: str = ""
    """Its kind, or a family of `FAMILIES`; empty where it is not said."""
    ports: int = 0
    """Ports of a node, 0 where it is not said. [-]"""
    rate: float = 0.0
    """Rate of a port and direction, 0 where it is not said. [byte/s]"""
    exact: bool = False
    """Whether the number of ports is said, not taken."""
    strange: tuple[str, ...] = ()
    """Parts of the text that mean nothing known."""
    known: bool = True
    """Whether some part is understood."""

    @property
    def whole(self) -> bool:
        """Whether kind, ports and rate are all said."""
        return bool(self.network and self.network not in FAMILIES and self.exact and self.rate)


@lru_cache(maxsize=4096)
def stated_network(interconnect: str, gpus_per_node: int) -> Stated:
    """Return the network that a row's words mean.

    A rate without a number of ports is a node's: one port. A rate for each GPU is a port for each.

    Examples
    --------
    >>> found = stated_network("Storage: 2x BF3 400Gb/s, Compute: 8x NVIDIA ConnectX-7 IB NDR 400Gb/s", 8)
    >>> found.network, found.ports, found.rate
    ('infiniband-ndr', 8, 50000000000.0)
    >>> stated_network("nvlink4 + warp drive", 8).strange
    ('warp drive',)
    """
    parts, strange = _network_parts(re.sub(r"(?<=\d),(?=\d{3}\b)", "", interconnect))
    found = [_read(part, gpus_per_node) for part in parts]
    if not found:
        return Stated(strange=tuple(strange), known=not strange)
    best = max(found, key=lambda one: (one.rate * max(one.ports, 1), -_place(one.network)))
    network = best.network or min((one.network for one in found), key=_place)
    return replace(best, network=network, strange=tuple(strange))


def network_name(interconnect: str) -> str:
    """Return the network kind or family that words mean, empty where they name none.

    Examples
    --------
    >>> network_name("nvlink3 + 8x200Gb HDR IB"), network_name("nvlink3 + 4x Omni-Path")
    ('infiniband-hdr', 'omni-path-100')
    """
    return next((name for words, name in NETWORK_WORDS if words.search(interconnect.lower())), "")


def _place(network: str) -> int:
    names = [name for _, name in NETWORK_WORDS]
    return names.index(network) if network in names else len(names)


def _network_parts(interconnect: str) -> tuple[list[str], list[str]]:
    """Return the parts that tell of the network between nodes, and those that mean nothing known."""
    kept: dict[str, list[str]] = {"compute": [], "": []}
    strange: list[str] = []
    purpose = ""
    for part in _PARTS.split(interconnect):
        labelled = _LABEL.fullmatch(part)
        said = _label(labelled[1]) if labelled else ""
        purpose, text = (said, labelled[2]) if labelled and said else (purpose, part)
        words = text.lower().strip()
        if not words or purpose == "other" or (not purpose and _purpose(words) == "other"):
            continue
        if _tells(text):
            kept[purpose].append(text)
        elif not (_INSIDE.search(words) or _USUAL.search(words)):
            strange.append(words)
    return kept["compute"] or kept[""], strange


def _label(words: str) -> str:
    """Return what the cards after a label are for; those inside a node are no network."""
    return "other" if _INSIDE.search(words.lower()) else _purpose(words)


def _purpose(words: str) -> str:
    """Return ``compute`` or ``other`` for what a label says of its cards, empty where it says nothing."""
    plain = words.lower()
    return "compute" if _COMPUTE.search(plain) else "other" if _OTHER.search(plain) else ""


def _tells(part: str) -> bool:
    words = part.lower()
    if network_name(words):
        return True
    return not _INSIDE.search(words) and bool(_CARDS.search(words) or _bits(part) is not None)


def _bits(part: str) -> float | None:
    """Return the last rate of a part that its network may have, None where there is none. [Gbit/s]"""
    words, found = part.lower(), None
    for match in _RATE.finditer(part):
        number, unit, bare = match.groups()
        bytes_each = bool(unit and _BYTES.search(match[0]))
        if (bare and not (_CARDS.search(words) or network_name(words))) or (
            bytes_each and _INSIDE.search(words)
        ):
            continue
        found = float(number) * (KB if (unit or bare) in "tT" else 1.0) * (8.0 if bytes_each else 1.0)
    return found


def _read(part: str, gpus_per_node: int) -> Stated:
    words = part.lower()
    network, bits = network_name(words), _bits(part)
    count = next((int(number) for match in _counts(words) for number in match.groups() if number), 0)
    count *= 2 if count and re.search(r"dual[- ]?port", words) else 1
    each, whole = bool(_EACH.search(words)), bool(_WHOLE.search(words))
    if bits is None:
        bits = next((gbit for pattern, gbit in _GENERATIONS if re.search(pattern, words)), None)
        ports = count or (1 if _SINGLE.search(words) else 0)
        return Stated(network, ports, (bits or 0.0) * GB / 8, exact=bool(ports))
    ports = count or (gpus_per_node if each else 1)
    exact = bool(count or each or whole)
    if network == "infiniband" and (count or each):
        network = BY_RATE.get(round(bits), network)
    return Stated(network, ports, bits * GB / 8, exact)


def _counts(words: str) -> list[re.Match[str]]:
    return [match for pattern in (_COUNT, _COUNTED) if (match := pattern.search(words)) is not None]
