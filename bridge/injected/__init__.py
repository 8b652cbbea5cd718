"""The helper that runs inside each kernel: standard library only, delivered as source.

The server never imports this package; it reads the files as text and sends them to a kernel, where they live
under the private name `_bridge_kernel` (see `bridge.engine.helper`). Roles, in the order they act:

- `service`      hooks into IPython: before and after a cell, and our own `bridge_request` messages
- `display`      the REST door's display rules: library defaults, figures, stream order
- `symbols`      which names a cell reads, binds and removes
- `codes`        what a function's code can do to the namespace
- `reach`        which functions can be reached from a value
- `keys`         values that open the whole namespace to whoever holds them
- `known`        which code of the notebook's functions lives
- `saver`        groups names that share objects into units and serialises them
- `ledger`       what the kernel holds: its units, nodes and pieces
- `reducers`     how the pickler takes what is special: functions, classes, modules, arrays, live things
- `oddities`     reducers for what pickle takes wrongly: views, iterators, exceptions, classes of some libraries
- `containers`   reducers for the notebook's own kinds of list, dict, set and deque
- `caches`       functions under `lru_cache`
- `frames`       what in pandas' frames decides what a write reaches
- `tracebacks`   where an exception came through
- `picklers`     the picklers with these reducers, and the bounded file they write to
- `stamps`       whether a value can have changed
- `tensors`      PyTorch's tensors and storages
- `sharing`      whether an object that two units hold makes them one
- `trial`        whether a library's object comes back from its pickle at all
- `classes`      classes made in the notebook, taken apart and put together again
- `arrays`       NumPy arrays: large ones out of band, views as views
- `atoms`        large collections of texts and the like, in pieces that are pickled once
- `mapping`      blobs laid over an array's memory, and which still lie there as they were
- `blobs`        chunks of bytes in the home's folder, addressed by content
- `workers`      threads that share in hashing and writing
- `loader`       puts units back into a namespace
- `environment`  what a cell may change beside its variables
- `items`        one such thing: what each can do
- `modules`      the modules that cells imported or made
- `loggers`      the standard library's logging
- `libraries`    what NumPy, pandas, matplotlib and PyTorch keep
- `interactive`  what cells change of IPython itself
- `patches`      attributes of modules that a cell sets
- `live`         values that cannot be saved
- `threads`      what keeps running after its cell
- `streams`      order of output, and the cell that late output belongs to
- `plain`        IPython's own names, out of the namespace
- `celltexts`    the cells' texts under their file names
- `between`      what runs while no cell does
- `bridge_magics` the magics of a notebook for its states (kernelspec door)
- `ask`          their questions to the bridge
- `inspection`   states that the kernel does not hold, looked at apart
- `session`      a session's namespace into its state file and back
- `state_file`   each value pickled by itself within a cap
- `captured`     definitions as source
- `frozen`       the standard library as it was before any cell
- `canonical`    hashes of content and alias groups
- `forks`        a process that can be forked: now a kernel, now a template of kernels
- `transport`    ipykernel's sockets and threads, put down and taken up anew
- `obstacles`    what keeps a process from being forked
- `preload`      libraries imported ahead, out of sight
"""
