"""The version of this package: the one place that states it."""

VERSION = "0.1.0.dev0"
