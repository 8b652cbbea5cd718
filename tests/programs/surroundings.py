"""What cells change beside their variables: the process around them, and the libraries' settings."""

from __future__ import annotations

from tests.programs import Program

PROCESS = Program(
    "process",
    (
        "import os, sys, random, decimal, warnings, logging, tempfile, locale\n"
        "start = os.getcwd()\nos.path.isabs(start)",
        "os.makedirs('data', exist_ok=True); os.chdir('data')\n"
        "with open('rows.txt', 'w') as out: out.write('1\\n2\\n3\\n')\nos.path.basename(os.getcwd())",
        "os.environ['STAGE'] = 'raw'; os.environ['GONE'] = 'x'\nsys.path.insert(0, os.getcwd())\n"
        "with open('helper_of_cells.py', 'w') as out: out.write('state = []\\ndef double(n): return 2 * n\\n')",
        "import helper_of_cells\nhelper_of_cells.double(21)",
        "helper_of_cells.double(2), os.path.basename(helper_of_cells.__file__), sys.path[0] == os.getcwd()",
        "del os.environ['GONE']; os.environ['STAGE'] += '+clean'\n[line.strip() for line in open('rows.txt')]",
        "'GONE' in os.environ, os.environ['STAGE'], os.getenv('STAGE'), os.path.exists('rows.txt')",
        "!echo $STAGE; basename $PWD",
        "random.seed(11); rng = random.Random(5)\n[random.randrange(100) for _ in range(3)], rng.random()",
        "[random.randrange(100) for _ in range(3)], rng.random(), random.gauss(0, 1)",
        "random.gauss(0, 1), rng.gauss(0, 1), rng.sample(range(10), 3)",
        "decimal.getcontext().prec = 6\ndecimal.Decimal(1) / decimal.Decimal(7)",
        "decimal.Decimal(1) / decimal.Decimal(3), decimal.getcontext().prec",
        "decimal.getcontext().traps[decimal.DivisionByZero] = False\ndecimal.Decimal(1) / 0",
        "decimal.Decimal(2) / 0, decimal.getcontext().flags[decimal.DivisionByZero]",
        "warnings.simplefilter('ignore'); warnings.warn('not seen')\nlen([f for f in warnings.filters])",
        "warnings.warn('not seen either'); print('quiet', warnings.filters[0][0])",
        "warnings.filterwarnings('error', message='bad.*')\n"
        "try: warnings.warn('bad thing')\nexcept UserWarning as error: print('raised', error)",
        "try: warnings.warn('bad again')\nexcept UserWarning as error: print('raised', error)\n"
        "warnings.warn('good'); print('ok')",
        "warnings.resetwarnings()\nlen(warnings.filters)",
        "log = logging.getLogger('cells'); log.setLevel(logging.INFO); log.propagate = False\n"
        "class Lines(logging.Handler):\n    def __init__(self):\n        super().__init__(); self.lines = []\n"
        "    def emit(self, record): self.lines.append(self.format(record))\n"
        "lines = Lines(); lines.setFormatter(logging.Formatter('%(levelname)s:%(message)s'))\n"
        "log.addHandler(lines); log.info('one'); log.debug('not')",
        "log.info('two'); lines.lines, lines in log.handlers, log.level, log.handlers[0] is lines",
        "log.setLevel(logging.WARNING); log.info('no'); log.warning('three')\nlines.lines",
        "logging.getLogger('cells.sub').error('four'); log.isEnabledFor(logging.INFO), lines.lines",
        "log.removeHandler(lines); log.error('lost'); len(log.handlers), len(lines.lines)",
        "import textwrap, json\ntextwrap.shorten = lambda text, width: text[:width] + '~'\n"
        "json.dumps_sorted = lambda value: json.dumps(value, sort_keys=True)",
        "textwrap.shorten('abcdef', 3), json.dumps_sorted({'b': 1, 'a': 2})",
        "del json.dumps_sorted\nhasattr(json, 'dumps_sorted'), textwrap.shorten('xyz', 1)",
        "import xml.dom.minidom, concurrent.futures, importlib.util\n"
        "xml.dom.minidom.parseString('<a><b/></a>').documentElement.tagName",
        "import xml\nxml.dom.minidom.parseString('<c/>').documentElement.tagName, concurrent.futures.__name__",
        "sys.setrecursionlimit(2500); sys.getrecursionlimit()",
        "def depth(n=0):\n    try: return depth(n + 1)\n    except RecursionError: return n\n"
        "2000 < depth() < 2600, sys.getrecursionlimit()",
        "os.chdir(start)\nsorted(os.listdir('data'))[-1], os.path.relpath(os.getcwd(), start)",
        "%cd -q data\nos.path.basename(get_ipython().run_line_magic('pwd', ''))",
        "%env LEVEL=9",
        "os.environ['LEVEL'], os.path.basename(os.getcwd())",
        "%%capture\n%pushd ..",
        "os.path.relpath(os.getcwd(), start)",
    ),
    fresh=(4, 10, 14, 18, 22, 26, 29),
    files=True,
)

LIBRARIES = Program(
    "libraries",
    (
        "import numpy as np, pandas as pd\nnp.random.seed(3); gen = np.random.default_rng(3)\n"
        "np.random.rand(2), gen.random(2)",
        "np.random.rand(2), gen.random(2), np.random.randn()",
        "state = np.random.get_state(); a = np.random.rand(3); np.random.set_state(state)\n"
        "np.array_equal(a, np.random.rand(3)), np.random.randn()",
        "np.random.randn(), gen.normal(size=2), gen.bit_generator is gen.bit_generator",
        "old = np.random.RandomState(8); twin = old; old.rand(); twin.rand()",
        "old is twin, old.rand() , gen.integers(100, size=4)",
        "np.set_printoptions(precision=2, suppress=True)\nnp.linspace(0, 1, 4)",
        "np.linspace(0, 2, 4)",
        "np.set_printoptions(threshold=5, edgeitems=1, formatter={'float': lambda x: f'<{x:.1f}>'})\n"
        "np.arange(10.0)",
        "np.arange(20.0), np.get_printoptions()['edgeitems']",
        "np.set_printoptions(edgeitems=3, threshold=1000, precision=8, suppress=False, formatter=None)",
        "np.seterr(divide='raise')\ntry: np.ones(1) / 0\nexcept FloatingPointError as e: print(e)",
        "try: np.ones(1) / 0\nexcept FloatingPointError as e: print('again', e)",
        "df = pd.DataFrame({'g': list('aab'), 'v': [1.23456, 2, np.nan]})\n"
        "pd.set_option('display.precision', 1)\ndf",
        "df",
        "pd.options.display.float_format = '{:.3f}'.format\ndf",
        "print(df); df.describe()",
        "pd.reset_option('display.float_format'); pd.set_option('display.max_rows', 4)\n"
        "pd.DataFrame({'n': range(10)})",
        "pd.DataFrame({'n': range(12)})",
        "with pd.option_context('display.max_rows', 3): display(pd.Series(range(7)))\npd.Series(range(7))",
        "df['w'] = df.v * 2; part = df[df.g == 'a']; grouped = df.groupby('g')\ngrouped.v.sum()",
        "grouped.w.mean(), part",
        "df.attrs['source'] = 'cell'; df.index.name = 'row'; cat = df.g.astype('category')\n"
        "cat.cat.categories, df.attrs",
        "df.attrs, df.index.name, cat.cat.codes.tolist(), df.dtypes",
        "import matplotlib.pyplot as plt, matplotlib as mpl\n"
        "mpl.rcParams['figure.figsize'] = (2, 1); mpl.rcParams['figure.dpi'] = 40\n"
        "plt.plot([1, 2, 3]); plt.show()",
        "plt.plot([3, 2, 1]); plt.title('t'); plt.show()",
        "plt.style.use('ggplot')\nfig, ax = plt.subplots(); ax.bar([1, 2], [3, 4]); plt.show()",
        "fig, ax = plt.subplots(); ax.plot([1, 3]); plt.show()",
        "plt.get_fignums(), mpl.rcParams['figure.dpi'], mpl.rcParams['axes.facecolor']",
        "with mpl.rc_context({'figure.dpi': 20}): plt.plot([1]); plt.show()\nmpl.rcParams['figure.dpi']",
        "mpl.rcdefaults()\nmpl.rcParams['axes.facecolor'], mpl.rcParams['lines.linewidth']",
        "mpl.rcParams['axes.facecolor']",
        "%precision 2",
        "1 / 3, np.float64(2 / 3)",
        "%precision",
        "1 / 3",
    ),
    fresh=(1, 3, 9, 18, 27, 33),
    needs=("numpy", "pandas", "matplotlib"),
)

HISTORY = Program(
    "history",
    (
        "40 + 2",
        "_",
        "'second'\nx = 5",
        "x * 2",
        "_, __, ___",
        "_1, _2, _4, Out[1], sorted(Out)",
        "[len(In), In[1], In[-2]]",
        "_i, _ii, _iii, _i1",
        "[1, 2, 3]",
        "_.append(4); _9",
        "_9, Out[9] is _9",
        "kept = Out[9]; kept.append(5)",
        "_9, kept is _9",
        "None",
        "_",
        "'quiet';",
        "_",
        "'between'",
        "_",
        "7 * 6",
        "_, Out[20]",
        "mine = Out[20]",
        "'after'",
        "_",
        "get_ipython().execution_count, len(In)",
        "%whos",
        "class R:\n    def __repr__(self): return 'shown'\nR()",
        "type(_) is R, _27",
        "In[26], Out[5]",
        "y = 3\n%pinfo nothing_of_that_name",
        "%%capture said\nprint('hidden')",
        "said.stdout",
        "%history -n 1-4",
        "print(_oh is Out, _ih is In, len(_ih))",
        "%reset_selective -f ^kept$\n'kept' in globals(), _9",
        "%macro twice 4",
        "exec('made = 3'); made",
        "globals()['other'] = 4\nother, sorted(n for n in dir() if n in ('R', 'made', 'other', 'x', 'kept'))",
        "from IPython.display import display, HTML, Markdown\ndisplay(HTML('<b>x</b>')); Markdown('*m*')",
        "_",
        "h = display('first', display_id='one')",
        "h.update('second'); print(h.display_id)",
        "import asyncio\nawait asyncio.sleep(0, 'slept')",
        "async def later(n):\n    await asyncio.sleep(0)\n    return n\nawait later(3)",
        "await asyncio.gather(*(later(n) for n in range(3)))",
        "_ = 'mine'",
        "_",
        "7 * 6",
        "_, Out[48]",
        "_",
    ),
    fresh=(5, 7, 12, 47),
)
