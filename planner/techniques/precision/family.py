"""Number formats: which products run in fewer bits, and what copies that costs."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Precision:
    """One recipe of number formats."""

    name: str
    """As on the command line."""
    cite: str
    """Where it is described."""
    linear: str
    """Dtype of the products of linear layers, a key of the accelerator's peaks and curves."""
    peak: str
    """Dtype whose dense peak is the denominator of MFU."""
    activation: str
    """Dtype of everything else."""
    weight_copies_bytes: float = 0.0
    """Bytes of extra weight copies for each parameter of a linear layer: low-bit copy and transpose.
    [byte]"""
    rests_alone: bool = False
    """Whether runtimes that hold weights in low bits hold these so, and no 16-bit weight besides."""
    either_layout: bool = False
    """Whether Blackwell's products take a weight as it is and transposed alike, so that it needs one copy."""
    step_cast_bytes: float = 0.0
    """Bytes of the copy from which an optimizer's step casts each such weight, all of them there at once;
    none where the copy has the place of the gradients. [byte]"""
    saved_input_bytes: float = 2.0
    """Bytes kept of each element that a linear layer needs again in backward. [byte]"""
    training_casts: float = 1.0
    """Bytes that a cast moves where the weight gradient needs the tensor in a second layout, over those of a
    cast for one product alone. [-]"""
    delayed: bool = False
    """Whether a tensor's scale is known before it is made, so that a cast reads it once, where it reads it
    twice for the scale of now, and may be part of the norm that makes it."""
    instead: str = ""
    """The format that comes nearest where an accelerator lacks this one; none for formats that all have."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def quantises(self) -> bool:
        """Whether products of linear layers run in fewer bits than everything else."""
        return self.linear != self.activation
