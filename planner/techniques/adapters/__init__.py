"""Adapters: whose code puts them beside linear layers, by name."""

from planner.registry import load_family
from planner.techniques.adapters.family import AdapterLibrary

ADAPTER_LIBRARIES = load_family(__name__, AdapterLibrary)

__all__ = ["ADAPTER_LIBRARIES", "AdapterLibrary"]
