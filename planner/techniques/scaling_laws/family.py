"""Scaling laws: how good a model of a size becomes on so many tokens, and which size is best."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.formulas.scaling import LossFit, optimal_params, optimal_params_at_ratio, scaling_loss


@dataclass(frozen=True)
class ScalingLaw:
    """One scaling law: a fitted loss, or a fixed number of tokens for each parameter."""

    name: str
    """As on the command line."""
    cite: str
    """Where its constants stand."""
    fit: LossFit | None = None
    """Constants of the loss."""
    tokens_per_param: float | None = None
    """Tokens for each parameter, where it says no loss. [-]"""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def __post_init__(self) -> None:
        """Refuse a law that says nothing, or two things."""
        if (self.fit is None) == (self.tokens_per_param is None):
            raise TypeError(f"{self.name}: a loss or a ratio, one of them")

    @property
    def said(self) -> str:
        """The law in a few words with its constants."""
        if self.fit is None:
            return f"{self.tokens_per_param:g} tokens for each parameter"
        one = self.fit
        return (
            f"loss {one.floor:g} + {one.size:g}/N^{one.size_power:g} + {one.data:g}/D^{one.data_power:g} "
            "of N parameters and D tokens"
        )

    def best_size(self, flops: float) -> float:
        """Return the parameters of the best model that so many FLOPs train, six for each and token. [-]"""
        if self.fit is None:
            return float(optimal_params_at_ratio(flops, self.tokens_per_param or 1.0))
        return float(optimal_params(flops, self.fit))

    def loss(self, params: float, tokens: float) -> float | None:
        """Return the loss of a token, None where the law says none. [nat]"""
        return None if self.fit is None else float(scaling_loss(params, tokens, self.fit))

    def rank(self, params: float, tokens: float) -> float:
        """Return by what sizes are ranked, less is better: the loss, or the size trained to the ratio.

        By a ratio the best is the largest model that gets its tokens; one that gets fewer counts as the size
        that its tokens suffice for.
        """
        if self.fit is None:
            return -min(params, tokens / (self.tokens_per_param or 1.0))
        return float(scaling_loss(params, tokens, self.fit))
