"""`--memory-limit` as a client sees it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support import Server, text_of


def test_k07_a_runaway_cell_ends_in_an_error_that_says_so_and_costs_no_state(
    make_server: Callable[..., Server],
) -> None:
    client = make_server(memory_limit="300M", pool_size=1).client
    client.run("x = list(range(3))", new="before")
    reply = client.execute(
        "print('begun', flush=True)\nwhile True: x.append(bytearray(10**7))", "before", "after"
    )
    assert reply["error"]["ename"] == "KernelDied"
    assert reply["error"]["evalue"] == "the kernel ended: it was over its memory limit of 300 MiB"
    assert reply["state_name"] is None
    assert text_of(reply) == "begun\n"
    assert text_of(client.run("print(x)", "before")) == "[0, 1, 2]\n"
