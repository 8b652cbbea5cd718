# ruff: noqa: E501 -- a table, one object a line
"""Objects of SciPy, scikit-learn, statsmodels, XGBoost, LightGBM and PyTorch."""

from __future__ import annotations

from tests.compat.rows.row import APART, Library, Row

_DATA = (
    "import numpy as np\n"
    "def data(kind=float):\n"
    "    rng = np.random.default_rng(0); a = rng.normal(size=(40, 3))\n"
    "    b = a @ [1.0, -2.0, 0.5] + rng.normal(size=40) / 9\n"
    "    return (a, b) if kind is float else (a, (b > 0).astype(int))\n"
    "def probe(): return np.linspace(-1, 1, 12).reshape(4, 3)"
)

SCIPY = Library(
    "SciPy",
    "scipy",
    "import numpy as np, scipy, scipy.sparse as sp",
    (
        Row("sparse.csr_matrix", "sp.csr_matrix(np.eye(3))", "x.toarray(), type(x).__name__, x.has_sorted_indices"),
        Row("sparse.csc_array", "sp.csc_array(np.eye(3))", "x.toarray(), type(x).__name__"),
        Row("sparse.coo_array", "sp.coo_array(([1, 2], ([0, 1], [1, 0])))", "x.toarray(), x.nnz"),
        Row("sparse.lil_matrix", "sp.lil_matrix(np.eye(2))", "(x.__setitem__((0, 1), 5), x.toarray())"),
        Row("sparse.dok_array", "sp.dok_array(np.eye(2))", "x.toarray(), x[0, 0]"),
        Row("sparse.linalg.LinearOperator", "sp.linalg.aslinearoperator(np.eye(2) * 3)", "x @ [1, 2]", "import scipy.sparse.linalg"),
        Row("sparse.linalg.SuperLU", "sp.linalg.splu(sp.csc_matrix(np.eye(2) * 2))", "x.solve(np.ones(2))", "import scipy.sparse.linalg"),
        Row("interpolate.interp1d", "interpolate.interp1d([0, 1, 2], [0, 1, 4])", "x([0.5, 1.5])", "from scipy import interpolate"),
        Row("interpolate.CubicSpline", "interpolate.CubicSpline([0, 1, 2], [0, 1, 4])", "x([0.5, 1.5]), x.derivative()(1)", "from scipy import interpolate"),
        Row("interpolate.UnivariateSpline", "interpolate.UnivariateSpline(range(6), [0, 1, 4, 9, 16, 25])", "x([0.5, 1.5])", "from scipy import interpolate"),
        Row("interpolate.RegularGridInterpolator", "interpolate.RegularGridInterpolator(([0, 1], [0, 1]), np.eye(2))", "x([[0.5, 0.2]])", "from scipy import interpolate"),
        Row("interpolate.LinearNDInterpolator", "interpolate.LinearNDInterpolator([[0, 0], [0, 1], [1, 0]], [1, 2, 3])", "x(0.2, 0.2)", "from scipy import interpolate"),
        Row("stats, frozen distribution", "stats.norm(2, 3)", "x.cdf(1), x.mean(), x.rvs(2, random_state=1)", "from scipy import stats"),
        Row("stats.norm", "stats.norm", "x.cdf(1), x is stats.norm", "from scipy import stats", alone=False),
        Row("stats.gaussian_kde", "stats.gaussian_kde([1, 2, 4.0])", "x([1, 2])", "from scipy import stats"),
        Row("stats test result", "stats.ttest_ind([1, 2, 3.0], [2, 3, 5.0])", "x.statistic, x.pvalue, x.confidence_interval()", "from scipy import stats"),
        Row("spatial.KDTree", "spatial.KDTree(np.arange(6.0).reshape(3, 2))", "x.query([1, 2])", "from scipy import spatial"),
        Row("spatial.Delaunay", "spatial.Delaunay([[0, 0], [0, 1], [1, 0], [1, 1.0]])", "x.simplices, x.find_simplex([0.2, 0.2])", "from scipy import spatial"),
        Row("spatial.ConvexHull", "spatial.ConvexHull([[0, 0], [0, 1], [1, 0], [0.2, 0.2]])", "x.volume, sorted(x.vertices)", "from scipy import spatial"),
        Row("spatial.transform.Rotation", "spatial.transform.Rotation.from_euler('z', 90, degrees=True)", "x.apply([1, 0, 0]), x.as_quat()", "from scipy import spatial"),
        Row("optimize.OptimizeResult", "optimize.minimize(lambda v: (v ** 2).sum(), [1.0, 2.0])", "x.x.round(3), x.success, x.message", "from scipy import optimize"),
        Row("signal.TransferFunction", "signal.TransferFunction([1], [1, 2])", "x.poles, x.step()[1][:3]", "from scipy import signal"),
        Row("integrate OdeResult, dense", "integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], dense_output=True)", "x.y[0, -1], x.sol(0.5)", "from scipy import integrate"),
    ),
)  # fmt: skip

SKLEARN = Library(
    "scikit-learn",
    "sklearn",
    _DATA,
    (
        Row("LinearRegression", "LinearRegression().fit(*data())", "x.predict(probe()), x.coef_", "from sklearn.linear_model import LinearRegression"),
        Row("LogisticRegression", "LogisticRegression().fit(*data(int))", "x.predict_proba(probe())", "from sklearn.linear_model import LogisticRegression"),
        Row("SGDClassifier", "SGDClassifier(random_state=0).fit(*data(int))", "x.decision_function(probe()), x.partial_fit(*data(int)).coef_", "from sklearn.linear_model import SGDClassifier"),
        Row("RandomForestClassifier", "RandomForestClassifier(5, random_state=0).fit(*data(int))", "x.predict_proba(probe())", "from sklearn.ensemble import RandomForestClassifier"),
        Row("GradientBoostingRegressor", "GradientBoostingRegressor(n_estimators=5, random_state=0).fit(*data())", "x.predict(probe())", "from sklearn.ensemble import GradientBoostingRegressor"),
        Row("HistGradientBoostingClassifier", "HistGradientBoostingClassifier(max_iter=3).fit(*data(int))", "x.predict_proba(probe())", "from sklearn.ensemble import HistGradientBoostingClassifier"),
        Row("IsolationForest", "IsolationForest(n_estimators=5, random_state=0).fit(data()[0])", "x.score_samples(probe())", "from sklearn.ensemble import IsolationForest"),
        Row("DecisionTreeClassifier", "DecisionTreeClassifier(max_depth=2, random_state=0).fit(*data(int))", "x.predict(probe()), x.tree_.node_count", "from sklearn.tree import DecisionTreeClassifier"),
        Row("SVC", "SVC(probability=False).fit(*data(int))", "x.decision_function(probe())", "from sklearn.svm import SVC"),
        Row("KNeighborsClassifier", "KNeighborsClassifier(algorithm='kd_tree').fit(*data(int))", "x.predict(probe()), x.kneighbors(probe())", "from sklearn.neighbors import KNeighborsClassifier"),
        Row("GaussianProcessRegressor", "GaussianProcessRegressor().fit(*data())", "x.predict(probe()).round(6)", "from sklearn.gaussian_process import GaussianProcessRegressor"),
        Row("MLPClassifier", "MLPClassifier((3,), max_iter=600, random_state=0).fit(*data(int))", "x.predict_proba(probe())", "from sklearn.neural_network import MLPClassifier"),
        Row("KMeans", "KMeans(2, n_init=1, random_state=0).fit(data()[0])", "x.predict(probe()), x.cluster_centers_", "from sklearn.cluster import KMeans"),
        Row("PCA", "PCA(2).fit(data()[0])", "x.transform(probe())", "from sklearn.decomposition import PCA"),
        Row("StandardScaler", "StandardScaler().fit(data()[0])", "x.transform(probe())", "from sklearn.preprocessing import StandardScaler"),
        Row("OneHotEncoder", "OneHotEncoder().fit([['a'], ['b']])", "x.transform([['b']]).toarray(), x.get_feature_names_out()", "from sklearn.preprocessing import OneHotEncoder"),
        Row("FunctionTransformer of a lambda", "FunctionTransformer(lambda v: v + 1)", "x.fit_transform(probe())", "from sklearn.preprocessing import FunctionTransformer"),
        Row("TfidfVectorizer", "TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit(['a b', 'b c'])", "x.transform(['b c']).toarray(), x.vocabulary_", "from sklearn.feature_extraction.text import TfidfVectorizer"),
        Row("Pipeline", "make_pipeline(StandardScaler(), LogisticRegression()).fit(*data(int))", "x.predict_proba(probe()), list(x.named_steps)", "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nfrom sklearn.linear_model import LogisticRegression"),
        Row("ColumnTransformer", "ColumnTransformer([('s', StandardScaler(), [0])], remainder='passthrough').fit(data()[0])", "x.transform(probe())", "from sklearn.compose import ColumnTransformer\nfrom sklearn.preprocessing import StandardScaler"),
        Row("GridSearchCV", "GridSearchCV(Ridge(), {'alpha': [0.1, 1]}, cv=2).fit(*data())", "x.best_params_, x.predict(probe())", "from sklearn.model_selection import GridSearchCV\nfrom sklearn.linear_model import Ridge"),
        Row("KFold", "KFold(2, shuffle=True, random_state=0)", "[t.tolist() for _, t in x.split(range(4))]", "from sklearn.model_selection import KFold"),
        Row("own estimator", "Mean().fit(*data())", "x.predict(probe()), x", "from sklearn.base import BaseEstimator, RegressorMixin\nclass Mean(RegressorMixin, BaseEstimator):\n    def fit(self, a, b): self.m_ = b.mean(); return self\n    def predict(self, a): return np.full(len(a), self.m_)"),
        Row("utils.Bunch", "Bunch(a=1)", "x.a, x", "from sklearn.utils import Bunch"),
    ),
)  # fmt: skip

STATSMODELS = Library(
    "statsmodels",
    "statsmodels",
    _DATA + "\nimport statsmodels.api as sm, pandas as pd\n"
    "def frame():\n    a, b = data(); return pd.DataFrame(a, columns=list('pqr')).assign(y=b)",
    (
        Row("OLS", "(lambda a, b: sm.OLS(b, a))(*data())", "x.fit().params"),
        Row("OLS results", "(lambda a, b: sm.OLS(b, a).fit())(*data())", "x.params, x.rsquared, x.predict(probe()), len(str(x.summary()))"),
        Row("OLS results by formula", "smf.ols('y ~ p + np.log(q ** 2)', frame()).fit()", "x.params, x.predict(frame()[:3])", "import statsmodels.formula.api as smf"),
        Row("GLM results", "(lambda a, b: sm.GLM(b, a, family=sm.families.Binomial()).fit())(*data(int))", "x.params, x.predict(probe())"),
        Row("Logit results", "(lambda a, b: sm.Logit(b, a).fit_regularized(alpha=1, disp=0))(*data(int))", "x.params"),
        Row("ARIMA results", "sm.tsa.ARIMA(data()[1], order=(1, 0, 0)).fit()", "x.params, x.forecast(2)"),
        Row("ExponentialSmoothing results", "sm.tsa.SimpleExpSmoothing(data()[1], initialization_method='estimated').fit(smoothing_level=0.5)", "x.forecast(2)"),
        Row("seasonal decomposition", "sm.tsa.seasonal_decompose(data()[1], period=4)", "x.trend[2:6], x.seasonal[:4]"),
        Row("ECDF", "sm.distributions.ECDF([3, 1, 2])", "x([1.5, 3])"),
        Row("KDEUnivariate", "(lambda k: (k.fit(), k)[1])(sm.nonparametric.KDEUnivariate(data()[1]))", "x.bw, x.evaluate(0.5)"),
    ),
)  # fmt: skip

XGBOOST = Library(
    "XGBoost",
    "xgboost",
    _DATA + "\nimport xgboost as xgb",
    (
        Row("XGBClassifier", "xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(*data(int))", "x.predict_proba(probe()), x.n_estimators"),
        Row("XGBRegressor", "xgb.XGBRegressor(n_estimators=3, n_jobs=1).fit(*data())", "x.predict(probe()), x.feature_importances_"),
        Row("Booster", "xgb.train({'nthread': 1}, xgb.DMatrix(*data()), 3)", "x.predict(xgb.DMatrix(probe())), x.num_boosted_rounds(), x.attributes()"),
        Row("DMatrix", "xgb.DMatrix(*data())", "x.num_row(), x.get_label()[:3]"),
    ),
)  # fmt: skip

LIGHTGBM = Library(
    "LightGBM",
    "lightgbm",
    _DATA + "\nimport lightgbm as lgb",
    (
        Row("LGBMClassifier", "lgb.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(*data(int))", "x.predict_proba(probe())"),
        Row("LGBMRegressor", "lgb.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1).fit(*data())", "x.predict(probe()), x.feature_importances_"),
        Row("Booster", "lgb.train({'verbose': -1, 'num_threads': 1}, lgb.Dataset(*data()), 3)", "x.predict(probe()), x.num_trees(), x.params.get('verbose')"),
        Row("Dataset", "lgb.Dataset(*data(), params={'verbose': -1})", "x.construct().num_data()"),
        Row("Dataset, constructed", "lgb.Dataset(*data(), params={'verbose': -1}).construct()", "x.num_data(), x.get_label()[:3]"),
    ),
)  # fmt: skip

TORCH = Library(
    "PyTorch",
    "torch",
    "import torch\nfrom torch import nn\n"
    "def net():\n    torch.manual_seed(0); return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))\n"
    "def probe(): return torch.linspace(-1, 1, 6).reshape(2, 3)",
    (
        Row("Tensor", "torch.arange(6.0).reshape(2, 3)", "x, x.dtype, x.is_contiguous(), x.requires_grad"),
        Row("Tensor, resized", "torch.arange(3.0)", "x.resize_(9).shape, x[:3]"),
        Row("Tensor, large", "torch.arange(300_000.0)", "x.sum(), x.stride(), x.untyped_storage().nbytes()", apart=APART),
        Row("Tensor, bfloat16, transposed", "torch.ones(2, 3, dtype=torch.bfloat16).T", "x, x.stride()"),
        Row("Tensors over one storage", "(lambda t: [t, t[1:3], t.view(2, 2)])(torch.zeros(4))", "(x[1].fill_(7), x[0], x[2], x[1].storage_offset())"),
        Row("Tensor and the array it shares", "(lambda a: [a, torch.from_numpy(a)])(np.zeros(3))", "(x[1].fill_(7), x[0])", "import numpy as np"),
        Row("Tensor with gradient", "(lambda t: ((t * 2).sum().backward(), t)[1])(torch.ones(2, requires_grad=True))", "x, x.grad, x.is_leaf"),
        Row("Tensor over an array's memory", "torch.from_numpy(np.arange(3))", "x, x.untyped_storage().resizable()", "import numpy as np"),
        Row("array over a tensor", "(lambda t: [t, t.numpy()])(torch.zeros(3))", "(x[0].fill_(7), x[1])"),
        Row("Tensor of a graph", "(torch.ones(2, requires_grad=True) * 2).sum()", "x.item(), x.grad_fn is not None"),
        Row("Tensor with an attribute", "(lambda t: (setattr(t, 'unit', 'm'), t)[1])(torch.ones(1))", "x, x.unit"),
        Row("Tensor, sparse", "torch.eye(3).to_sparse()", "x.to_dense(), x.is_coalesced()"),
        Row("Tensor, quantized", "torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)", "x.int_repr(), x.q_scale()"),
        Row("nn.Parameter", "nn.Parameter(torch.ones(2))", "x, type(x) is nn.Parameter, x.requires_grad"),
        Row("nn.Module", "net()", "x(probe()), x.training"),
        Row("nn.Module with gradients", "(lambda n: (n(probe()).sum().backward(), n)[1])(net())", "x[0].weight.grad, x.eval().training"),
        Row("nn.Module, tied weights", "tied()", "x.a.weight is x.b.weight, len(list(x.parameters()))", "def tied():\n    class Tied(nn.Module):\n        def __init__(self):\n            super().__init__(); self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)\n            self.b.weight = self.a.weight\n    return Tied()"),
        Row("nn.Module of one's own", "Own()", "x(torch.ones(2)), x.scale", "class Own(nn.Module):\n    def __init__(self):\n        super().__init__(); self.scale = 3; self.register_buffer('b', torch.ones(2))\n    def forward(self, v): return v * self.scale + self.b"),
        Row("nn.Module with a hook", "(lambda n: (n.register_forward_hook(lambda m, i, o: o + 1), n)[1])(net())", "x(probe())"),
        Row("state_dict", "net().state_dict()", "list(x), x['0.bias'], x._metadata"),
        Row("Model with its optimizer", "trained()", "x[1].state_dict()['state'][0]['step'], x[1].param_groups[0]['params'][0] is x[0][0].weight, (x[1].step(), x[0](probe()))", "def trained():\n    n = net(); o = torch.optim.Adam(n.parameters()); n(probe()).sum().backward(); o.step(); return [n, o]"),
        Row("optim.lr_scheduler", "torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net().parameters(), lr=1.0), 1)", "(x.optimizer.step(), x.step(), x.get_last_lr())"),
        Row("utils.data.TensorDataset", "torch.utils.data.TensorDataset(torch.arange(4))", "len(x), x[2]"),
        Row("utils.data.DataLoader", "torch.utils.data.DataLoader(list(range(4)), batch_size=2)", "list(x)"),
        Row("Generator", "torch.Generator().manual_seed(3)", "torch.rand(2, generator=x)"),
        Row("dtype, device, Size", "[torch.float16, torch.device('cpu'), torch.Size([2])]", "x, x[0] is torch.float16"),
        Row("distributions.Normal", "torch.distributions.Normal(0.0, 2.0)", "x.log_prob(torch.tensor(1.0)), x"),
        Row("jit.ScriptModule", "torch.jit.script(nn.Linear(2, 1))", "x(torch.zeros(1, 2)).shape"),
        Row("fx.GraphModule", "torch.fx.symbolic_trace(net())", "x(probe())", "import torch.fx"),
    ),
)  # fmt: skip
