#!/usr/bin/env bash
# docs/adding-an-op.md, followed to the letter in a copy of the tree: its two ops build without a warning, and the tests
# that a new op gets for nothing pass. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
tree=$box/tree
mkdir "$tree"
git ls-files -co --exclude-standard 2> /dev/null | grep -v '^fuzz/corpus/' | tar -cf - -T - 2> /dev/null | tar -xf - -C "$tree"
if [ ! -f "$tree/meson.build" ]; then
    echo "1..1"
    echo "ok 1 # SKIP not a checkout: git does not know which files to copy"
    exit 0
fi

# The page's blocks of C, by the section they are in, to where the page says that they go.
follow()
{
    "$python" - "$tree" << 'END'
import re
import sys
from pathlib import Path

tree = Path(sys.argv[1])
page = (tree / "docs/adding-an-op.md").read_text()


def blocks(title):
    section = re.search(rf"^## {title}.*?(?=^## )", page, re.M | re.S).group(0)
    return re.findall(r"^```c\n(.*?)^```", section, re.M | re.S)


def insert(path, before, text):
    file = tree / path
    old = file.read_text()
    assert old.count(before) >= 1, f"no {before!r} in {path}"
    file.write_text(old.replace(before, text + before, 1))


row, prototype, macro = blocks("An elementwise op")
insert("src/op/elementwise/unary.inc", "UNARY(neg,", row)
insert("include/ipu/op/elementwise.h", "ipu_value ipu_neg(", prototype)
insert("include/ipu/op/elementwise.h", "#define ipu_neg(", macro)

*source, header = blocks("An op with a kernel and a gradient")
name = re.search(r"a line\s+`OP\((\w+)\)` in `src/op/ops.inc`", page).group(1)
insert("src/op/ops.inc", "OP(where)", f"OP({name})\n")
insert("include/ipu/op.h", '#include "ipu/op/attention.h"', f'#include "ipu/op/{name}.h"\n')
folder = tree / "src/op" / name
folder.mkdir()
(folder / f"{name}.c").write_text("\n".join(source))
(tree / f"include/ipu/op/{name}.h").write_text(f"""/* A new family. */
#ifndef IPU_OP_{name.upper()}_H
#define IPU_OP_{name.upper()}_H
#include "ipu/builder.h"
{header}
#endif
""")
print(re.match(r"UNARY\((\w+)", row).group(1), name)
END
}

# Optimised code takes compilers twice as long, and is no question here.
build()
{
    (cd "$tree" && env -u LOGS BUILD=build MESON_OPTIONS="-Doptimization=0" scripts/build.sh tests/ops_test tools/ipu) || return 1
    ! grep -rn 'warning:' "$tree/build/meson-logs/meson-log.txt" | grep -E 'src/op|include/ipu'
}

in_tree() { (cd "$tree" && "$@"); }

check "the page is followed" follow
read -r -a new < "$box/log"
check "it says two ops" [ ${#new[@]} = 2 ]
check "the tree builds with them" build
for op in "${new[@]}"; do
    check "$op: implementations agree with the reference" in_tree build/tests/ops_test test "$op"
    check "$op: gradients agree with finite differences" in_tree build/tests/ops_test grad "$op"
    check "$op: ipu ops shows it" in_tree build/tools/ipu ops "$op"
done
check_end
