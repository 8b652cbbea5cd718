"""`jupyter bridge install`, `uninstall` and `status`: kernelspecs whose kernel is the bridge.

The template and the logos are `kernelspec/` of the checkout; beside this module stands a link to it, so that one
path finds them in a checkout and, as package data, in whatever way the package was installed.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir, jupyter_path

from bridge.arguments import Parser, as_written
from bridge.settings import home_size, memory_size

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpecManager

PROGRAM = "jupyter bridge"
MODULE = "bridge.jupyter"
NAME = "bridge"
TEMPLATE = Path(__file__).parent / "kernelspec"
PROBE_SECONDS = 20.0
"""Seconds that an interpreter has to tell whether the bridge is installed in it."""


class InstallError(Exception):
    """What was asked for cannot be done; the message is the one line that the user gets to see."""


@dataclass(frozen=True, slots=True)
class Installed:
    """One kernelspec of the bridge, as its kernel.json stands in a folder of Jupyter's."""

    folder: Path
    argv: list[str]
    display_name: str

    @property
    def name(self) -> str:
        """What Jupyter calls it."""
        return self.folder.name

    @property
    def python(self) -> str:
        """The interpreter that it starts."""
        return self.argv[0]

    @property
    def kernel(self) -> str | None:
        """The kernelspec whose kernels run the cells; None for the interpreter's own ipykernel."""
        return self.argv[self.argv.index("--kernel") + 1] if "--kernel" in self.argv[:-1] else None

    @property
    def prefix(self) -> Path:
        """What `--prefix` was, for one that does not stand in the user's own folder."""
        return self.folder.parents[3]

    def command(self) -> str:
        """The command that installs it as it is, with the interpreter that runs this."""
        place = ["--user"] if self.folder.parent == user_folder() else ["--prefix", str(self.prefix)]
        flags = (
            self.argv[self.argv.index("{connection_file}") + 1 :] if "{connection_file}" in self.argv else []
        )
        named = ["--name", self.name, "--display-name", self.display_name]
        return shlex.join([*PROGRAM.split(), "install", *place, *named, *flags])


def user_folder() -> Path:
    """Where the kernelspecs of this user alone stand."""
    return Path(jupyter_data_dir()) / "kernels"


def installed(folders: Sequence[Path] | None = None) -> list[Installed]:
    """Every kernelspec of the bridge in these folders (None: wherever Jupyter looks), in their order."""
    if folders is None:
        folders = [Path(folder) for folder in jupyter_path("kernels")]
    found = (_read(path.parent) for folder in folders for path in sorted(folder.glob("*/kernel.json")))
    return [spec for spec in found if spec is not None]


def _read(folder: Path) -> Installed | None:
    """The bridge's kernelspec in that folder; None when there is none, or somebody else's."""
    try:
        spec = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
        argv = [str(word) for word in spec["argv"]]
    except (OSError, ValueError, LookupError, TypeError):
        return None  # whatever Jupyter cannot use either is not ours
    if argv[1:3] != ["-m", MODULE]:
        return None
    return Installed(folder, argv, str(spec.get("display_name", folder.name)))


# -- the kernelspec


def kernel_dict(display_name: str, flags: Sequence[str] = ()) -> dict[str, Any]:
    """The content of kernel.json: the template, with this interpreter, that name and the kernel's own flags."""
    spec: dict[str, Any] = json.loads((TEMPLATE / "kernel.json").read_text(encoding="utf-8"))
    spec["argv"] = [sys.executable if word == "{python}" else word for word in spec["argv"]] + [*flags]
    spec["display_name"] = display_name
    return spec


def write_kernelspec(folder: Path, display_name: str, flags: Sequence[str] = ()) -> None:
    """Fills an empty folder with kernel.json and the logos."""
    for logo in TEMPLATE.glob("logo-*"):
        shutil.copyfile(logo, folder / logo.name)
    text = json.dumps(kernel_dict(display_name, flags), indent=1, ensure_ascii=False)
    (folder / "kernel.json").write_text(text + "\n", encoding="utf-8")


# -- the commands


def _install(given: argparse.Namespace) -> int:
    from jupyter_client.kernelspec import KernelSpecManager

    manager = KernelSpecManager()
    name = _valid_name(given.name)
    folder = _place(given) or user_folder()
    flags = _flags(given)
    inner = _inner_name(manager, given.kernel)
    _refuse_foreign(folder / name)
    with tempfile.TemporaryDirectory(prefix="jupyter-bridge-") as made:
        write_kernelspec(Path(made), given.display_name or f"{inner} (bridge)", flags)
        manager.log.disabled = True  # it warns where a --prefix is not searched; said below in our words
        try:
            target = Path(manager.install_kernel_spec(made, name, **_target(given)))
        except OSError as error:
            raise InstallError(f"cannot write {folder / name}: {error.strerror}") from error
    print(f"installed {name} in {target}")
    first = next((spec.folder for spec in installed() if spec.name == name), None)
    if first != target:
        print(
            f"note: Jupyter takes {name} from {first}"
            if first
            else f"note: Jupyter here does not look in {folder}"
        )
    return 0


def _uninstall(given: argparse.Namespace) -> int:
    place = _place(given)
    folders = None if place is None else [place]
    for spec in installed(folders):
        if spec.name == given.name.lower():
            try:
                shutil.rmtree(spec.folder)
            except OSError as error:
                raise InstallError(f"cannot remove {spec.folder}: {error.strerror}") from error
            print(f"removed {spec.name} from {spec.folder}")
            return 0
    names = sorted({spec.name for spec in installed(folders)})
    where = "" if place is None else f" in {place}"
    known = f"there are: {', '.join(names)}" if names else "there is none"
    raise InstallError(f"no kernelspec of the bridge is named {given.name!r}{where}; {known}")


def _status(given: argparse.Namespace) -> int:
    """Lists what is installed; 1 when something of it does not work."""
    found = installed()
    if not found:
        print(f"no kernelspec of the bridge is installed; to install one: {PROGRAM} install")
        return 0
    faulty = False
    for spec in found:
        fault = _fault(spec)
        print(f"{spec.name}  {spec.display_name}  {spec.folder}")
        if fault is None:
            print(f"  works with {spec.python}")
        else:
            faulty = True
            print(f"  does not work: {fault[0]}\n  to repair it: {fault[1]}")
    return int(faulty)


def _fault(spec: Installed) -> tuple[str, str] | None:
    """Why a kernelspec cannot work, and the command that repairs it; None when it can."""
    if shutil.which(spec.python) is None:
        return f"its interpreter {spec.python} is gone", spec.command()
    probe = (
        f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULE.split('.')[0]!r}) is None)"
    )
    try:
        code = subprocess.run(
            [spec.python, "-I", "-c", probe],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        ).returncode
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its interpreter {spec.python} does not run: {error}", spec.command()
    if code != 0:
        return f"jupyter-bridge is not installed in {spec.python}", spec.command()
    if spec.kernel is not None and not _exists(spec.kernel):
        return f"the kernelspec {spec.kernel} that it runs is gone", _without_kernel(spec)
    return None


def _without_kernel(spec: Installed) -> str:
    place = spec.argv.index("--kernel")
    return Installed(spec.folder, [*spec.argv[:place], *spec.argv[place + 2 :]], spec.display_name).command()


def _exists(kernel: str) -> bool:
    from jupyter_client.kernelspec import KernelSpecManager

    return kernel in KernelSpecManager().find_kernel_specs()


# -- what the flags mean


def _place(given: argparse.Namespace) -> Path | None:
    """The folder of kernelspecs that the flags choose; None when they choose none."""
    if given.user:
        return user_folder()
    prefix = sys.prefix if given.sys_prefix else given.prefix
    return Path(prefix).expanduser().absolute() / "share" / "jupyter" / "kernels" if prefix else None


def _target(given: argparse.Namespace) -> dict[str, Any]:
    """The same choice in the words of KernelSpecManager.install_kernel_spec."""
    place = _place(given)
    return {"user": True} if place in (None, user_folder()) else {"prefix": str(place.parents[2])}


def _valid_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", text):  # jupyter_client's rule (kernelspec._is_valid_kernel_name)
        raise InstallError(f"--name must be of letters, digits, '.', '-' and '_' alone, not {text!r}")
    return text.lower()  # as install_kernel_spec makes it


def _inner_name(manager: KernelSpecManager, kernel: str | None) -> str:
    """What the kernel that runs the cells is called; InstallError unless it is a Python one, and not a bridge."""
    if kernel is None:
        return "Python 3"
    from jupyter_client.kernelspec import NoSuchKernel

    try:
        spec = manager.get_kernel_spec(kernel)
    except NoSuchKernel:
        known = ", ".join(sorted(manager.find_kernel_specs()))
        raise InstallError(f"--kernel must be an installed kernelspec; there are: {known}") from None
    if spec.language.lower() != "python":
        raise InstallError(f"--kernel must be a Python kernel; {kernel} is for {spec.language}")
    if spec.argv[1:3] == ["-m", MODULE]:
        raise InstallError(f"--kernel must be the kernel that runs the cells; {kernel} is the bridge itself")
    return str(spec.display_name)


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and _read(folder) is None:
        raise InstallError(f"{folder} is not a kernelspec of the bridge; choose another --name")


def _flags(given: argparse.Namespace) -> list[str]:
    """The flags that the kernel itself is started with."""
    flags: list[str] = []
    if given.kernel is not None:
        flags += ["--kernel", given.kernel]
    if given.home is not None:
        flags += ["--home", str(Path(given.home).expanduser().absolute())]
    if given.memory_limit is not None:
        flags += ["--memory-limit", given.memory_limit]
    if given.max_home is not None:
        flags += ["--max-home", given.max_home]
    return [*flags, "--resume"] if given.resume else flags


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "install": (_install, "Makes the bridge a kernel that Jupyter offers; again, to change or repair it."),
    "uninstall": (_uninstall, "Takes a kernel of the bridge away from Jupyter; states stay."),
    "status": (
        _status,
        "Lists the installed kernels of the bridge, and says how to repair one that cannot work.",
    ),
}


def parser(command: str) -> argparse.ArgumentParser:
    """The parser of one of the commands."""
    made = Parser(prog=f"{PROGRAM} {command}", description=COMMANDS[command][1], allow_abbrev=False)
    if command == "status":
        return made
    place = made.add_mutually_exclusive_group()
    place.add_argument(
        "--user", action="store_true", help="for this user, whatever Python runs Jupyter (default)"
    )
    place.add_argument("--sys-prefix", action="store_true", help=f"in this environment ({sys.prefix})")
    place.add_argument("--prefix", metavar="DIR", help="in DIR/share/jupyter/kernels")
    made.add_argument("--name", default=NAME, help=f"what Jupyter calls it (default: {NAME})")
    if command == "uninstall":
        return made
    made.add_argument("--display-name", metavar="TEXT", help="what people see (default: Python 3 (bridge))")
    made.add_argument("--kernel", metavar="NAME", help="the installed Python kernelspec to run cells in")
    made.add_argument("--resume", action="store_true", help="begin a notebook's kernel with its last state")
    made.add_argument(
        "--memory-limit",
        type=as_written(memory_size),
        metavar="SIZE",
        help="memory a kernel may take, such as 4G",
    )
    made.add_argument(
        "--max-home", type=as_written(home_size), metavar="SIZE", help="room the home may take, such as 10G"
    )
    made.add_argument(
        "--home", metavar="DIR", help="the folder of states (default: bridge/ in Jupyter's data folder)"
    )
    return made


def main(command: str, argv: Sequence[str]) -> int:
    """Runs one of the commands; gives the exit code: 2 with one line on standard error for what cannot be done."""
    given = parser(command).parse_args(argv)
    try:
        return COMMANDS[command][0](given)
    except InstallError as error:
        print(f"{PROGRAM} {command}: {error}", file=sys.stderr)
        return 2
