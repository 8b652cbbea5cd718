"""iopub messages in, nbformat outputs out: no sockets, no clock, no globals."""

from bridge.outputs.collector import Collector, Event, Output
from bridge.outputs.limits import MARKER, Limits
from bridge.outputs.text import strip_ansi

__all__ = ["MARKER", "Collector", "Event", "Limits", "Output", "strip_ansi"]
