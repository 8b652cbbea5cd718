"""The protocol tests that Jupyter's own people publish, on the bridge kernel and on ipykernel alike."""

from __future__ import annotations

import jupyter_kernel_test
import pytest

pytestmark = pytest.mark.usefixtures("jupyter")


class Samples:
    """What the tests run: ipykernel passes every one of them."""

    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = (
        {"text": "zi", "matches": {"zip"}},
        {"text": "print(zi", "matches": {"zip"}},
    )
    complete_code_samples = ("1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n")
    incomplete_code_samples = ("print('''hello", "def f(x):\n  x*2")
    invalid_code_samples = ("import = 7q",)
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = (
        {"code": "6*7", "result": "42"},
        {"code": "'x' * 3", "result": "'xxx'"},
        {"code": "import math; math.pi", "result": "3.141592653589793"},
    )
    code_display_data = (
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
            "mime": "text/html",
        },
        {
            "code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))",
            "mime": "text/latex",
        },
    )
    code_history_pattern = "6?7*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    support_iopub_welcome = True


class TestBridge(Samples, jupyter_kernel_test.KernelTests):  # type: ignore[misc]
    kernel_name = "bridge"


class TestIpykernel(Samples, jupyter_kernel_test.KernelTests):  # type: ignore[misc]
    kernel_name = "python3"


class TestWelcomeOfBridge(Samples, jupyter_kernel_test.IopubWelcomeTests):  # type: ignore[misc]
    kernel_name = "bridge"
