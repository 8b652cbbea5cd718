"""Every error this product raises on purpose, with the HTTP status it becomes.

    BridgeError 500
    ├── BadRequest 400             a field is missing or wrong; the message names it
    ├── Unauthorized 401           the token is wrong or missing
    ├── Forbidden 403              the Host or the Origin is foreign
    ├── NotFound 404               no such route, state or variable
    │   ├── StateNotFound          no state of that name
    │   │   └── StateEvicted       there was one, until the home was over its limit
    │   └── SessionNotFound        no session of that id
    ├── Conflict 409               the request contradicts what is there
    ├── BodyTooLarge 413           the request's body is over the limit
    ├── UnsupportedMedia 415       the body is not application/json
    ├── ShuttingDown 503           the server is ending
    ├── Interrupted 500            the execution was interrupted before its cell began
    ├── KernelError 500
    │   ├── KernelStartFailed      a kernel did not come up; the message holds its stderr
    │   ├── CannotFork             a kernel's process cannot be copied; the message says why
    │   ├── KernelDied             the kernel's process ended; the message says how
    │   ├── KernelTimeout          the kernel did not answer in time
    │   └── RestoreFailed          a state could not be loaded into a kernel
    ├── ArchiveError 500           an exported state's file is damaged, or cannot be read or written
    └── StoreError 500
        ├── HomeTooNew             the home was written by a later version
        └── HomeDamaged            the home, or a file in it, cannot be read

The REST room turns them into `{"error": {"code", "message"}}` in one place.
"""

from __future__ import annotations


class BridgeError(Exception):
    """Base of all errors of this package.

    `status` is the HTTP status, `code` the machine-readable word in the JSON body.
    """

    status = 500

    @property
    def code(self) -> str:
        """The class's name: what a client matches on."""
        return type(self).__name__


class BadRequest(BridgeError):
    """A field of the request is missing, of the wrong type or out of range."""

    status = 400


class Unauthorized(BridgeError):
    """The request carries no token, or a wrong one."""

    status = 401


class Forbidden(BridgeError):
    """The request comes from a foreign Host or Origin."""

    status = 403


class NotFound(BridgeError):
    """There is no such route, state or variable."""

    status = 404


class StateNotFound(NotFound):
    """There is no state of that name; the message is the name."""


class StateEvicted(StateNotFound):
    """The state of that name was removed to keep the home under its limit; the message says so."""


class SessionNotFound(NotFound):
    """There is no session of that id."""


class Conflict(BridgeError):
    """The request contradicts something that exists or runs now."""

    status = 409


class BodyTooLarge(BridgeError):
    """The request's body is larger than the server takes."""

    status = 413


class UnsupportedMedia(BridgeError):
    """The request's body is not `application/json`."""

    status = 415


class ShuttingDown(BridgeError):
    """The server is ending and takes no more work."""

    status = 503


class Interrupted(BridgeError):
    """The execution was interrupted while it still waited for a kernel."""


class KernelError(BridgeError):
    """Something about a kernel process went wrong."""


class KernelStartFailed(KernelError):
    """A kernel did not come up; the message ends with what it wrote to stderr."""


class CannotFork(KernelError):
    """A copy of a kernel's process would lack something; the message says what."""


class KernelDied(KernelError):
    """The kernel's process ended; the message gives the signal or the exit code."""


class KernelTimeout(KernelError):
    """The kernel did not answer one of our own requests within its bound."""


class RestoreFailed(KernelError):
    """A state could not be loaded into a kernel."""


class ArchiveError(BridgeError):
    """The file of an exported state is damaged, is none, or cannot be read or written."""


class StoreError(BridgeError):
    """The home directory cannot be used."""


class HomeTooNew(StoreError):
    """The home was written by a later version of this package."""


class HomeDamaged(StoreError):
    """The home, or a file in it, cannot be read."""
