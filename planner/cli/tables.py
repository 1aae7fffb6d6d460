"""What commands look up in the tables of runtimes and releases, which are loaded with it."""

from planner.calibrate.releases import named_runtime, plain_traits
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.libraries import libraries, library_named
from planner.runtimes.libraries.family import FIXED, HOSTS
from planner.runtimes.saving import Saving
from planner.runtimes.settings import changed
from planner.runtimes.trait_values import expected
from planner.runtimes.traits import TRAITS, trait_name
from planner.techniques.context.family import offered_name

__all__ = [
    "FIXED", "HOSTS", "TRAITS", "Job", "Saving", "changed", "expected", "libraries", "library_named",
    "named_runtime", "offered_name", "plain_traits", "runtimes", "trait_name",
]  # fmt: skip
