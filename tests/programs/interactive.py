"""What cells change of IPython and of the process, which later cells meet without naming it."""

from __future__ import annotations

from tests.programs import Program

INTERACTIVE = Program(
    "interactive",
    (
        "from IPython.core.magic import Magics, line_magic, magics_class, register_cell_magic, register_line_magic\n"
        "ip = get_ipython()\n"
        "@register_line_magic\ndef hello(line): return 'hi ' + line\n"
        "@register_cell_magic\ndef shout(line, cell): print(cell.upper())\n"
        "@magics_class\nclass Tally(Magics):\n    count = 0\n"
        "    @line_magic\n    def tally(self, line): self.count += 1; print('tally', self.count, self.shell is ip)\n"
        "ip.register_magics(Tally)",
        "%hello you",
        "%%shout\nabc",
        "%tally\n%tally",
        "%tally",
        "%alias listed echo listed %s\n%load_ext autoreload\n%macro -q again 1",
        "listed foo",
        "%autoreload 0\nprint('autoreload' in str(ip.extension_manager.loaded))",
        "import ast\n"
        "class Negative(ast.NodeTransformer):\n    def visit_Constant(self, node):\n"
        "        return ast.copy_location(ast.Constant(-node.value), node) if type(node.value) is int else node\n"
        "negative = Negative()\nip.ast_transformers.append(negative)",
        "print(5, ip.ast_transformers[-1] is negative)",
        "ip.ast_transformers.remove(negative)\n"
        "ip.input_transformers_cleanup.append(lambda lines: [line.replace('££', 'print') for line in lines])",
        "££('ok', 5)",
        "def after(result): print('after', result.success)\nip.events.register('post_run_cell', after)",
        "print('in')",
        "ip.events.unregister('post_run_cell', after)\nprint('gone')",
        "class Zed: pass\nzed = Zed()\n"
        "ip.display_formatter.formatters['text/plain'].for_type(Zed, lambda o, p, cycle: p.text('<zed>'))\n"
        "ip.display_formatter.formatters['text/html'].for_type_by_name("
        "'fractions', 'Fraction', lambda f: '<b>f</b>')",
        "zed",
        "import fractions; fractions.Fraction(1, 2)",
        "import gc, locale, logging, os, socket, sys, time, copyreg\n"
        "gc.disable(); gc.set_threshold(5, 6, 7); sys.setswitchinterval(0.5); socket.setdefaulttimeout(3.5)\n"
        "locale.setlocale(locale.LC_ALL, 'C.UTF-8'); os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()\n"
        "logging.addLevelName(25, 'NOTE'); logging.disable(10); mask = os.umask(0o027)\n"
        "class Pickled: pass\ncopyreg.pickle(Pickled, lambda p: (Pickled, ()))",
        "print(gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), socket.getdefaulttimeout(), time.tzname)\n"
        "print(locale.setlocale(locale.LC_ALL), logging.getLevelName(25), logging.root.manager.disable)\n"
        "now = os.umask(0o027); print(oct(now), Pickled in copyreg.dispatch_table, time.localtime(0).tm_hour)",
        "%xmode Minimal",
        "ip.ast_node_interactivity = 'all'",
        "1\n2",
        "def fails(): 1 / 0\nfails()",
    ),
    fresh=(1, 2, 4, 6, 7, 9, 11, 13, 16, 17, 19, 22, 23),
)
