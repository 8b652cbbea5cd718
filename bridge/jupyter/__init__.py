"""The bridge kernel: to a front end ipykernel, behind it a real one, with a state kept after every cell.

`frontend` and `inner` are the sockets to either side, `proxy` the loop between them, `turns` the order of the cells,
`line` the states of the notebook, `answers` what its magics are told, `install` its kernelspecs.
"""
