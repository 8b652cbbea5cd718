# ruff: noqa: E501 -- a table, one object a line
"""Objects of plotting and graphics libraries, of SymPy, NetworkX, Requests and parsers of HTML and XML."""

from __future__ import annotations

from tests.compat.rows.row import Library, Row

_PIXELS = (
    "import matplotlib, io, hashlib\nfrom matplotlib.figure import Figure\nimport matplotlib.pyplot as plt\n"
    "def pixels(figure):\n    f = io.BytesIO(); figure.savefig(f, format='raw', dpi=50)\n"
    "    return hashlib.sha256(f.getvalue()).hexdigest()"
)

MATPLOTLIB = Library(
    "matplotlib",
    "matplotlib",
    _PIXELS,
    (
        Row("Figure", "drawn()", "pixels(x), x.get_size_inches(), len(x.axes)", "def drawn():\n    f, a = plt.subplots(); a.plot([1, 3, 2], label='l'); a.legend(); plt.close(f); return f"),
        Row("Figure without pyplot", "(lambda f: (f.subplots().bar([1, 2], [3, 4]), f)[1])(Figure())", "pixels(x)"),
        Row("Axes", "Figure().subplots()", "(x.plot([1, 2]), x.set_title('t'), x.get_title(), pixels(x.figure))[2:]"),
        Row("Axes in 3D", "Figure().add_subplot(projection='3d')", "(x.plot([0, 1], [0, 1], [0, 1]), x.name)[1]"),
        Row("image in Axes", "Figure().subplots().imshow([[1, 2], [3, 4]], cmap='viridis')", "x.get_array(), x.get_clim(), x.cmap.name"),
        Row("Line2D", "matplotlib.lines.Line2D([0, 1], [1, 2], color='r')", "x.get_xydata(), x.get_color()"),
        Row("patches.Rectangle", "matplotlib.patches.Rectangle((0, 0), 1, 2)", "x.get_bbox(), x.contains_point((0.5, 0.5))"),
        Row("colors.ListedColormap", "matplotlib.colors.ListedColormap(['r', '#00ff00'])", "x(0), x(255), x.N"),
        Row("colors.Colormap of the library", "matplotlib.colormaps['viridis']", "x(0.5), x.name"),
        Row("colors.LogNorm", "matplotlib.colors.LogNorm(1, 100)", "x(10), x.vmin"),
        Row("path.Path", "matplotlib.path.Path([[0, 0], [1, 1]])", "x, x.codes"),
        Row("transforms.Affine2D", "matplotlib.transforms.Affine2D().rotate(1)", "x.transform([[1, 0]])"),
        Row("gridspec.GridSpec", "matplotlib.gridspec.GridSpec(2, 3)", "x.get_geometry(), x[0, 1].colspan"),
        Row("ticker.FuncFormatter", "matplotlib.ticker.FuncFormatter(lambda v, p: f'{v}!')", "x(3)", "import matplotlib.ticker"),
        Row("font_manager.FontProperties", "matplotlib.font_manager.FontProperties(size=9)", "x.get_size(), x.get_name()", "import matplotlib.font_manager"),
        Row("cycler.Cycler", "matplotlib.cycler(color=['r', 'g'])", "x, len(x)"),
        Row("RcParams", "matplotlib.RcParams({'lines.linewidth': 3})", "x, type(x).__name__"),
        Row("tri.Triangulation", "matplotlib.tri.Triangulation([0, 1, 0], [0, 0, 1])", "x.triangles, x.edges", "import matplotlib.tri"),
        Row("animation.FuncAnimation", "moving()", "x.to_jshtml()[:9]", "import matplotlib.animation\ndef moving():\n    f, a = plt.subplots(); line, = a.plot([0, 1])\n    made = matplotlib.animation.FuncAnimation(f, lambda n: line.set_ydata([n, 1]), 2); plt.close(f); return made"),
    ),
)  # fmt: skip

SEABORN = Library(
    "seaborn",
    "seaborn",
    _PIXELS + "\nimport seaborn as sns, pandas as pd\n"
    "def frame(): return pd.DataFrame({'a': [1, 2, 3, 4], 'b': [2, 1, 4, 3], 'k': list('xxyy')})\n"
    "def closed(grid): plt.close('all'); return grid",
    (
        Row("Axes of a plot", "closed(sns.scatterplot(frame(), x='a', y='b', hue='k', ax=Figure().subplots()))", "pixels(x.figure), x.get_xlabel()"),
        Row("FacetGrid", "closed(sns.FacetGrid(frame(), col='k').map(plt.scatter, 'a', 'b'))", "pixels(x.figure), x.col_names"),
        Row("PairGrid", "closed(sns.pairplot(frame()))", "pixels(x.figure), x.x_vars"),
        Row("JointGrid", "closed(sns.jointplot(frame(), x='a', y='b'))", "pixels(x.figure)"),
        Row("ClusterGrid", "closed(sns.clustermap(frame()[['a', 'b']]))", "pixels(x.figure), x.dendrogram_row.reordered_ind"),
        Row("objects.Plot", "so.Plot(frame(), x='a', y='b').add(so.Line())", "type(x.plot()).__name__, len(x._layers)", "import seaborn.objects as so"),
        Row("palette", "sns.color_palette('deep', 3)", "x, x.as_hex()"),
    ),
)  # fmt: skip

PLOTLY = Library(
    "plotly",
    "plotly",
    "import json, plotly.graph_objects as go, plotly.express as px\n"
    "def whole(figure): return json.dumps(json.loads(figure.to_json()), sort_keys=True)",
    (
        Row("Figure", "go.Figure(go.Scatter(x=[1, 2], y=[3, 4]), layout={'title': 't'})", "whole(x), x == go.Figure(x)"),
        Row("express Figure", "px.bar(x=['a', 'b'], y=[1, 2])", "whole(x)"),
        Row("Figure with subplots", "make_subplots(rows=1, cols=2)", "whole(x.add_scatter(y=[1], row=1, col=2))", "from plotly.subplots import make_subplots"),
        Row("Scatter", "go.Scatter(x=[1], y=[2], mode='lines')", "x.to_plotly_json(), x.mode"),
        Row("Layout", "go.Layout(title='t', width=300)", "x.to_plotly_json(), x.width"),
        Row("FigureWidget", "go.FigureWidget(go.Scatter(y=[1]))", "whole(x)", alone=False),
    ),
)  # fmt: skip

NETWORKX = Library(
    "networkx",
    "networkx",
    "import networkx as nx",
    (
        Row("Graph", "nx.Graph([(1, 2, {'w': 3}), (2, 'a')], name='g')", "list(x.edges(data=True)), x.graph, nx.shortest_path(x, 1, 'a')"),
        Row("DiGraph", "nx.DiGraph([(1, 2), (2, 3)])", "list(x.edges), list(x.predecessors(3)), x.in_degree(2)"),
        Row("MultiGraph", "nx.MultiGraph([(1, 2), (1, 2)])", "list(x.edges(keys=True)), x.number_of_edges()"),
        Row("MultiDiGraph", "nx.MultiDiGraph([(1, 2), (1, 2)])", "list(x.edges(keys=True))"),
        Row("Graph, cached adjacency", "(lambda g: (g.adj, g.edges, g)[2])(nx.path_graph(4))", "(x.add_edge(0, 3), list(x.edges), dict(x.degree))"),
        Row("subgraph view", "nx.path_graph(5).subgraph([1, 2])", "list(x.edges), nx.is_frozen(x)"),
        Row("filtered view", "nx.subgraph_view(nx.path_graph(5), filter_node=lambda n: n > 1)", "list(x.nodes)"),
        Row("frozen Graph", "nx.freeze(nx.path_graph(3))", "nx.is_frozen(x), list(x.edges)"),
        Row("NodeView", "nx.path_graph(3).nodes", "list(x), x[1]"),
        Row("EdgeView", "nx.path_graph(3).edges", "list(x), len(x)"),
        Row("DegreeView", "nx.path_graph(3).degree", "dict(x)"),
    ),
)  # fmt: skip

PIL = Library(
    "Pillow",
    "PIL",
    "import io\nfrom PIL import Image, ImageDraw, ImageFont\n"
    "def png():\n    f = io.BytesIO(); Image.new('RGB', (2, 2), 'red').save(f, 'png'); return io.BytesIO(f.getvalue())",
    (
        Row("Image", "Image.new('RGB', (3, 2), (1, 2, 3))", "x.tobytes(), x.size, x.mode, x.getpixel((1, 1))"),
        Row("Image with palette and info", "made()", "x.convert('RGB').tobytes(), x.info, x.getpalette()[:3]", "def made():\n    i = Image.new('RGB', (2, 2), 'blue').convert('P'); i.info['k'] = 'v'; return i"),
        Row("Image of a file", "Image.open(png())", "x.tobytes(), x.size, x.mode, x.format"),
        Row("ImageDraw", "ImageDraw.Draw(Image.new('L', (3, 3)))", "(x.point((1, 1), 255), x._image.tobytes())"),
        Row("ImageFont", "ImageFont.load_default(12)", "x.getbbox('abc')"),
    ),
)  # fmt: skip

SYMPY = Library(
    "SymPy",
    "sympy",
    "import sympy\nfrom sympy.abc import a, b",
    (
        Row("Symbol", "sympy.Symbol('q', positive=True)", "x, x.is_positive, x == sympy.Symbol('q', positive=True)", alone=False),
        Row("Dummy", "sympy.Dummy('d')", "x.name, x == sympy.Dummy('d')"),
        Row("Expr", "(a + b) ** 2 / 3", "x, x.expand(), x.subs(a, 1), x.diff(a)"),
        Row("Rational", "sympy.Rational(1, 3)", "x, x + 1"),
        Row("constants", "[sympy.pi, sympy.oo, sympy.S.Half]", "x, x[0] is sympy.pi, x[2] is sympy.S.Half"),
        Row("Matrix", "sympy.Matrix([[a, 1], [0, b]])", "x, x.det(), (x.__setitem__((0, 0), 5), x)[1]"),
        Row("ImmutableMatrix", "sympy.ImmutableMatrix([[a, 2]])", "x, x.T"),
        Row("Eq", "sympy.Eq(a ** 2, 4)", "x, sympy.solve(x)"),
        Row("Function, undefined", "sympy.Function('f')", "x(a), x == sympy.Function('f'), x(a).diff(a)", alone=False),
        Row("applied undefined function", "sympy.Function('f')(a)", "x, x.diff(a), x == sympy.Function('f')(a)", alone=False),
        Row("Integral", "sympy.Integral(a ** 2, (a, 0, 1))", "x, x.doit()"),
        Row("Piecewise", "sympy.Piecewise((a, a > 0), (0, True))", "x, x.subs(a, -1)"),
        Row("Poly", "sympy.Poly(a ** 2 + 1, a)", "x, x.degree(), x.eval(2)"),
        Row("Interval", "sympy.Interval(0, 1, True)", "x, 1 in x, 0 in x"),
        Row("Lambda", "sympy.Lambda(a, a ** 2)", "x, x(3)"),
        Row("function of lambdify", "sympy.lambdify(a, sympy.sin(a) ** 2)", "x(1.0)"),
        Row("physics unit", "3 * units.meter", "x, units.convert_to(x, units.centimeter)", "from sympy.physics import units"),
    ),
)  # fmt: skip

REQUESTS = Library(
    "requests",
    "requests",
    "import requests",
    (
        Row("Session", "made()", "x.headers['k'], x.cookies.get('c'), x.auth, sorted(x.adapters)", "def made():\n    s = requests.Session(); s.headers['k'] = 'v'; s.cookies.set('c', '1'); s.auth = ('u', 'p'); return s"),
        Row("Response", "made()", "x.status_code, x.json(), x.headers['A'], x.elapsed", "def made():\n    r = requests.Response(); r.status_code = 200; r._content = b'{\"a\": 1}'; r.headers['a'] = 'b'; return r"),
        Row("PreparedRequest", "requests.Request('POST', 'http://h/p', json={'a': 1}).prepare()", "x.method, x.url, x.body, dict(x.headers)"),
        Row("RequestsCookieJar", "requests.cookies.cookiejar_from_dict({'a': '1'})", "x.get_dict(), x"),
        Row("CaseInsensitiveDict", "requests.structures.CaseInsensitiveDict(A='1')", "x['a'], x"),
    ),
)  # fmt: skip

SOUP = Library(
    "Beautiful Soup",
    "bs4",
    "from bs4 import BeautifulSoup\ndef page(): return BeautifulSoup('<p class=\"k\">t<b>u</b></p>', 'html.parser')",
    (
        Row("BeautifulSoup", "page()", "str(x), x.p['class'], x.find('b').text"),
        Row("Tag", "page().p", "str(x), x.b.parent is x"),
        Row("NavigableString", "page().p.contents[0]", "x, x == 't', x.parent.name"),
        Row("ResultSet", "page().find_all('b')", "x, len(x), x.source is not None"),
    ),
)  # fmt: skip

LXML = Library(
    "lxml",
    "lxml",
    "from lxml import etree",
    (
        Row("etree Element", "etree.fromstring('<a k=\"1\"><b/></a>')", "etree.tostring(x), x.get('k')"),
        Row("etree ElementTree, where lxml.objectify is imported", "etree.ElementTree(etree.fromstring('<a><b/></a>'))", "etree.tostring(x)", "import lxml.objectify"),
        Row("objectify element", "objectify.fromstring('<a><b>3</b></a>')", "x.b + 1, etree.tostring(x)", "from lxml import objectify"),
    ),
)  # fmt: skip
